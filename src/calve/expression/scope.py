"""Collects what an expression reads, as SQL: fields of the event, and metadata attributes.

The SQL first has a mark for each field, which cannot occur in a user's text (texts with a NUL are refused). When the
SQL is complete, `close` replaces the marks: by one `json_extract` for each field, or by one for all of them if the
event would be parsed more often (for 184 bytes: 160 ns for one field, 260 ns for two or three together).

Variables of lambdas begin with two underscores: a column of the same name would hide them.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from calve.expression.sql import duckdb_name, duckdb_text

__all__ = ["TAGS", "ArgumentError", "Scope", "pointer"]

TAGS = "tags"
"""The metadata attribute with the tags of an event, as JSON text; it exists if a processor can set tags."""

_WHOLE = "json(json)"
_MARK = re.compile("\0([jt])([0-9]+)\0")


class ArgumentError(ValueError):
    """An invalid function or argument; `at`: an offset in the text, or, from a builder, the index of the argument."""

    def __init__(self, problem: str, at: int, hint: str = "") -> None:
        super().__init__(problem)
        self.at = at
        self.hint = hint


class Scope:
    """Collects the fields and attributes that one piece of SQL reads.

    Args:
        metadata: The attributes that exist as columns; any other reads as missing.

    Attributes:
        used: The attributes that the expression reads, even if they do not exist.
        doubts: Warnings about parts that are probably not meant as they are read.
    """

    def __init__(self, metadata: Collection[str]) -> None:
        self.metadata = metadata
        self.used: set[str] = set()
        self.doubts: list[str] = []
        self._paths: dict[str, int] = {}

    def field(self, path: str) -> str:
        """Return SQL for the JSON text of the field at a pointer; NULL if it is missing."""
        return f"\0j{self._index(path)}\0"

    def field_text(self, path: str) -> str:
        """Return SQL for the field at a pointer as text: a string without its quotes; NULL if it is missing or null."""
        return f"\0t{self._index(path)}\0"

    def attribute(self, key: str) -> tuple[str, str]:
        """Return SQL for the JSON text and the text of an attribute; `a/b` is `b` in `a` if it is not a name itself."""
        name, _, rest = key.removeprefix("/").partition("/")
        if rest and key in self.metadata:
            name, rest = key, ""
        self.used.add(name)
        if name not in self.metadata:
            return "NULL::VARCHAR", "NULL::VARCHAR"
        column, json = duckdb_name(name), f"to_json({duckdb_name(name)})"
        if rest:
            path = duckdb_text(pointer(rest))
            return f"json_extract({json}, {path})::VARCHAR", f"json_extract_string({json}, {path})"
        text = (
            f"CASE WHEN typeof({column}) = 'VARCHAR' THEN {column}::VARCHAR ELSE json_extract_string({json}, '$') END"
        )
        return f"{json}::VARCHAR", text

    def fields(self, sql: str) -> frozenset[str] | None:
        """Return the names of the event's fields that finished SQL reads; None if it may read all of them."""
        names = frozenset(path.split("/")[1].replace("~1", "/").replace("~0", "~") for path in self._paths)
        return None if "" in names or _WHOLE in sql else names

    def close(self, sql: str) -> str:
        """Replace the marks in the SQL by the fields."""
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


def _bound(mark: re.Match[str], is_json: bool) -> str:
    field = f"__fields[{int(mark[2]) + 1}]"
    if is_json:
        return field
    return f"json_extract_string({field}::VARCHAR, '$')" if mark[1] == "t" else f"{field}::VARCHAR"


def pointer(key: str) -> str:
    """Convert an event key to DuckDB's JSON pointer: `/` before it, none after it, a lone `~` escaped."""
    return "/" + re.sub("~(?![01])", "~0", key.strip("/"))
