"""Reads what ALTER TABLE does to the columns and the rows of a table."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from calve.sources.mysql.ddl.statement import SqlToken, StatementReader

__all__ = ["Alteration", "Definition", "alteration"]

_LEAVES_COLUMNS = re.compile(
    r"(ADD|DROP|RENAME) (INDEX|KEY|UNIQUE|FULLTEXT|SPATIAL|FOREIGN|CHECK|PARTITION)\b"
    r"|(ALTER|ALGORITHM|AUTO_INCREMENT|COMMENT|ENGINE|FORCE|LOCK|ROW_FORMAT)\b"
).match
"""How parts of ALTER TABLE begin that change neither the names, types and order of columns nor the key.

None of these words is the name of a column there, unless it is in quotes.
"""
_NO_COLUMNS = frozenset(
    {
        *("INDEX", "KEY", "UNIQUE", "FULLTEXT", "SPATIAL", "FOREIGN", "CHECK", "PARTITION", "CONSTRAINT", "PRIMARY"),
        *("PERIOD", "SYSTEM"),
    }
)
"""What follows ADD or DROP if it is about no column."""
_LOSSES = ("TRUNCATE PARTITION", "DROP PARTITION")
_OTHER_ROWS = {
    "EXCHANGE PARTITION": "a partition was exchanged with a table",
    "IMPORT TABLESPACE": "its rows were replaced by those of a file",
    "DISCARD TABLESPACE": "its rows were discarded",
    "CONVERT PARTITION": "a partition became a table",
    "CONVERT TABLE": "a table became a partition",
    "SYSTEM VERSIONING": "its system versioning changed",
}
"""What replaces rows without a trace of them in the log."""
_CASCADES = tuple(f"ON {change} {effect}" for change in ("DELETE", "UPDATE") for effect in ("CASCADE", "SET NULL"))
_TYPES = {
    **dict.fromkeys(("BOOL", "BOOLEAN", "INT1"), "TINYINT"),
    "INT2": "SMALLINT",
    **dict.fromkeys(("INT3", "MIDDLEINT"), "MEDIUMINT"),
    **dict.fromkeys(("INTEGER", "INT4"), "INT"),
    "INT8": "BIGINT",
    **dict.fromkeys(("DEC", "NUMERIC", "FIXED"), "DECIMAL"),
    "FLOAT8": "DOUBLE",
    "FLOAT4": "FLOAT",
}
"""Other names of types."""


class Definition(NamedTuple):
    """What a column becomes.

    Attributes:
        name: Its name until then.
        kind: The type's name, in small letters.
        arguments: What stands in brackets behind it.
        words: All that follows, in capitals, without what stands in brackets or quotes.
        charset: The character set in small letters, or nothing.
    """

    name: str
    kind: str
    arguments: tuple[str, ...]
    words: tuple[str, ...]
    charset: str

    def has(self, words: str) -> bool:
        """Return whether words follow each other anywhere."""
        return f" {words} " in f" {' '.join(self.words)} "

    @property
    def fills_rows(self) -> bool:
        """Whether older rows have, or may have, another value than NULL in a column that is added like this."""
        text = f" {' '.join(self.words)} "
        has_default = " DEFAULT " in text and " DEFAULT NULL " not in text
        may_be_null = " NULL " in text.replace(" NOT NULL ", " NOT ").replace(" DEFAULT NULL ", " ")
        is_stamped = self.kind == "timestamp" and not may_be_null  # a session may make it NOT NULL
        filled = {"AS", "GENERATED", "AUTO_INCREMENT", "PRIMARY", "KEY"}.intersection(self.words)
        return bool(has_default or " NOT NULL " in text or is_stamped or self.kind == "serial" or filled)


class Alteration(NamedTuple):
    """What an ALTER TABLE does.

    Attributes:
        may_describe: Whether columns may be others after it.
        renamed: The old and the new name of each renamed column.
        dropped: Columns that are dropped.
        added: Columns that are added, each with whether older rows may have a value in it.
        changed: Columns that get another definition.
        charset: The character set that all texts get, or nothing.
        why: Why rows changed without a trace of them in the log, or nothing.
        truncates: Whether a partition lost its rows.
        others: Other tables whose rows changed with these.
        cascades: Whether a foreign key from now on changes rows without a trace of them in the log.
        name: The new database and name, or nothing.
    """

    may_describe: bool = False
    renamed: tuple[tuple[str, str], ...] = ()
    dropped: tuple[str, ...] = ()
    added: tuple[tuple[str, bool], ...] = ()
    changed: tuple[Definition, ...] = ()
    charset: str = ""
    why: str = ""
    truncates: bool = False
    others: tuple[tuple[str, str], ...] = ()
    cascades: bool = False
    name: tuple[str, str] | None = None

    def joined(self, other: Alteration) -> Alteration:
        """Return what both do."""
        return Alteration(
            self.may_describe or other.may_describe,
            self.renamed + other.renamed,
            self.dropped + other.dropped,
            self.added + other.added,
            self.changed + other.changed,
            self.charset or other.charset,
            self.why or other.why,
            self.truncates or other.truncates,
            self.others + other.others,
            self.cascades or other.cascades,
            self.name or other.name,
        )


def alteration(reader: StatementReader, ignores: bool) -> Alteration:
    """Return what follows the table's name in an ALTER TABLE.

    Args:
        reader: Stands behind the name.
        ignores: Whether the statement is ALTER IGNORE TABLE.
    """
    combined = Alteration(
        may_describe=reader.has_backslash,  # where a string ends depends on the session's sql_mode
        truncates=any(reader.has(words) for words in _LOSSES),
        why=next((why for words, why in _OTHER_ROWS.items() if reader.has(words)), ""),
        cascades=any(reader.has(words) for words in _CASCADES),
    )
    if ignores:
        combined = combined._replace(why="ALTER IGNORE TABLE may have removed or converted rows")
    for part in reader.parts():
        combined = combined.joined(_part(part))
    return combined


def _part(part: StatementReader) -> Alteration:
    may_describe = not _LEAVES_COLUMNS(part.head)
    plain = Alteration(may_describe)
    if part.skip("ADD"):
        return plain._replace(added=tuple(_added(part)))
    if part.skip("DROP"):
        is_column = part.skip("COLUMN") or part.word not in _NO_COLUMNS
        part.skip("IF", "EXISTS")
        return plain._replace(dropped=(part.next_token(),)) if is_column else plain
    if part.skip("CHANGE"):
        part.skip("COLUMN", "IF", "EXISTS")
        old, new = part.next_token(), part.next_token()
        return plain._replace(changed=(_definition(old, part),), renamed=_renamed(old, new))
    if part.skip("MODIFY"):
        part.skip("COLUMN", "IF", "EXISTS")
        return plain._replace(changed=(_definition(part.next_token(), part),))
    if part.skip("CONVERT"):
        is_text = part.skip("TO", "CHARACTER", "SET", "CHARSET")
        return plain._replace(charset=part.next_token().strip("'").lower()) if is_text else plain
    if part.skip("RENAME"):
        return _part_renamed(part, plain)
    if part.skip("EXCHANGE"):
        while not part.is_over and not part.skip("TABLE"):
            part.next_token()
        return plain._replace(others=(part.table(),))
    return plain


def _part_renamed(part: StatementReader, plain: Alteration) -> Alteration:
    if part.skip("COLUMN"):
        part.skip("IF", "EXISTS")
        old = part.next_token()
        part.skip("TO")
        return plain._replace(renamed=_renamed(old, part.next_token()))
    if part.word in ("INDEX", "KEY"):
        return plain
    part.skip("TO", "AS", "=")
    return plain._replace(name=part.table())


def _renamed(old: str, new: str) -> tuple[tuple[str, str], ...]:
    return ((old, new),) if old != new else ()


def _added(part: StatementReader) -> Iterator[tuple[str, bool]]:
    """Yield the columns of an ADD, each with whether older rows may have a value in it."""
    if not part.skip("COLUMN") and part.word in _NO_COLUMNS:
        return
    part.skip("IF", "NOT", "EXISTS")
    several = part.brackets()
    for definition in several.parts() if several else [part]:
        if several and definition.word in _NO_COLUMNS:
            continue
        name = definition.next_token()
        yield name, _definition(name, definition).fills_rows


def _definition(name: str, part: StatementReader) -> Definition:
    kind = part.next_token().upper()
    arguments = part.brackets()
    inside = [token for token in arguments.rest if token.word != ","] if arguments else []
    words, charset = _words(part)
    kind = _TYPES.get(kind, kind).lower()
    return Definition(name, kind, tuple(token.label for token in inside), tuple(words), charset)


def _words(part: StatementReader) -> tuple[list[str], str]:
    words: list[str] = []
    charset = ""
    while not part.is_over:
        if part.brackets() is not None:
            words.append("()")
            continue
        if part.skip("CHARSET") or (words[-1:] == ["CHARACTER"] and part.skip("SET")):
            charset = part.next_token().strip("'").lower()
            continue
        token = SqlToken(part.rest[0].text, part.rest[0].is_name)
        part.next_token()
        words.append(token.word or "''")
    return words, charset
