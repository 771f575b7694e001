"""What an expression reads: fields of the event and metadata attributes, as SQL.

A field is written into the SQL as a mark that no user text can hold (texts with a NUL are refused). When all of the
SQL is there, `close` puts the reading in its place: one `json_extract` for each field, or, where that would parse the
event more often, one for all of them (184 bytes an event: 160 ns for a field, 260 ns for two or three together).

Variables of lambdas begin with two underscores: a column of the same name would hide them.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from calve.sql import duckdb_name, duckdb_text

__all__ = ["ArgumentError", "Scope", "pointer"]

_WHOLE = "json(json)"
_MARK = re.compile("\0([jt])([0-9]+)\0")


class ArgumentError(ValueError):
    """A function or an argument that cannot be; `at`: an offset in the text, or in a builder the argument's place."""

    def __init__(self, problem: str, at: int, hint: str = "") -> None:
        super().__init__(problem)
        self.at = at
        self.hint = hint


class Scope:
    """Collects what one piece of SQL reads.

    Args:
        metadata: The attributes that exist as columns; any other reads as missing.

    Attributes:
        used: The attributes that the expression asks for, whether they exist or not.
        doubts: What is hardly meant as it is read, as messages.
    """

    def __init__(self, metadata: Collection[str]) -> None:
        self.metadata = metadata
        self.used: set[str] = set()
        self.doubts: list[str] = []
        self._paths: dict[str, int] = {}

    def field(self, path: str) -> str:
        """The JSON text of the field at a pointer; NULL when missing."""
        return f"\0j{self._index(path)}\0"

    def field_text(self, path: str) -> str:
        """The field at a pointer as text: a string without its quotes; NULL when missing or null."""
        return f"\0t{self._index(path)}\0"

    def attribute(self, key: str) -> tuple[str, str]:
        """The JSON text and the text of a metadata attribute; `a/b` is `b` in `a` where no attribute has that name."""
        name, _, rest = key.removeprefix("/").partition("/")
        if rest and key in self.metadata:
            name, rest = key, ""
        self.used.add(name)
        if name not in self.metadata:
            return "NULL::VARCHAR", "NULL::VARCHAR"
        column, whole = duckdb_name(name), f"to_json({duckdb_name(name)})"
        if rest:
            path = duckdb_text(pointer(rest))
            return f"json_extract({whole}, {path})::VARCHAR", f"json_extract_string({whole}, {path})"
        text = (
            f"CASE WHEN typeof({column}) = 'VARCHAR' THEN {column}::VARCHAR ELSE json_extract_string({whole}, '$') END"
        )
        return f"{whole}::VARCHAR", text

    def fields(self, sql: str) -> frozenset[str] | None:
        """Return the names of the event's fields that finished SQL reads; None where it may read all of them."""
        names = frozenset(path.split("/")[1].replace("~1", "/").replace("~0", "~") for path in self._paths)
        return None if "" in names or _WHOLE in sql else names

    def close(self, sql: str) -> str:
        """Put the reading of the fields into the SQL."""
        marks = _MARK.findall(sql)
        shows_only = all(kind == "t" for kind, _ in marks)
        if len(marks) == len(set(marks)) <= (1 if shows_only else 2):
            return _MARK.sub(self._alone, sql)
        paths = ", ".join(map(duckdb_text, self._paths))
        extract = "json_extract_string" if shows_only else "json_extract"
        body = _MARK.sub(lambda mark: _bound(mark, shows_only), sql)
        return f"list_transform([{extract}(json, [{paths}])], lambda __fields: {body})[1]"

    def _index(self, path: str) -> int:
        return self._paths.setdefault(pointer(path), len(self._paths))

    def _alone(self, mark: re.Match[str]) -> str:
        path = duckdb_text(list(self._paths)[int(mark[2])])
        return f"json_extract_string(json, {path})" if mark[1] == "t" else f"json_extract(json, {path})::VARCHAR"


def _bound(mark: re.Match[str], shown: bool) -> str:
    field = f"__fields[{int(mark[2]) + 1}]"
    if shown:
        return field
    return f"json_extract_string({field}::VARCHAR, '$')" if mark[1] == "t" else f"{field}::VARCHAR"


def pointer(key: str) -> str:
    """An event key as DuckDB's JSON pointer: `/` before it, none behind it, a lone `~` escaped."""
    return "/" + re.sub("~(?![01])", "~0", key.strip("/"))
