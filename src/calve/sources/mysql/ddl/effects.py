"""Reads what a statement of the log does to tables: the rows have no trace of it. Only the heads are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from calve.sources.mysql.catalog.column_types import in_charset
from calve.sources.mysql.ddl.alter import Alteration, alteration
from calve.sources.mysql.ddl.statement import StatementReader, tokens
from calve.sources.mysql.protocol.events import Query

__all__ = ["Effect", "effects", "effects_of"]

_CHANGES_OF_ROWS = frozenset({"INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD"})
_DESCRIBES = frozenset({"drop", "drop database", "replace", "columns"})
_NO_ESCAPES, _STRICT = 1 << 20, 3 << 21
"""Bits of `sql_mode`: NO_BACKSLASH_ESCAPES; STRICT_TRANS_TABLES and STRICT_ALL_TABLES."""
_BEFORE_A_TABLE = ("INTO", "FROM", "UPDATE", "TABLE", "JOIN", "IGNORE", "LOW_PRIORITY")


class Effect(NamedTuple):
    """What a statement does to a table.

    Attributes:
        kind: `truncate`, `partition` (one has lost its rows), `drop`, `drop database`, `replace`, `rename`, `columns`
            (they may be others), `versioned` (it is new, with system versioning) or `rows`.
        database: The table's database.
        table: Its name; empty for `drop database`.
        to: Of `rename`: the new database and name.
        alteration: Of `columns`: what is altered.
        is_strict: Whether the session refused to change values that do not fit.
    """

    kind: str
    database: str
    table: str
    to: tuple[tuple[str, str], ...] = ()
    alteration: Alteration = Alteration()
    is_strict: bool = False

    @property
    def describes(self) -> list[tuple[str, str]]:
        """The tables that may have other columns after it: each with its database; without a name all of that."""
        if self.kind == "rename":
            return [(self.database, self.table), *self.to]
        if self.kind == "columns" and not self.alteration.may_describe:
            return []
        return [(self.database, self.table)] if self.kind in _DESCRIBES else []


def effects_of(query: Query, charsets: Mapping[int, str]) -> list[Effect]:
    """Return what a statement of the log does.

    It has the character set of the session, or UTF-8 if the server wrote it itself.

    Args:
        query: The statement.
        charsets: The character set of each collation.
    """
    texts = dict.fromkeys(
        [in_charset(query.text, charsets.get(query.collation, "")), query.text.decode("utf-8", "replace")]
    )
    is_strict = bool(query.sql_mode & _STRICT)
    all_effects = (effect for text in texts for effect in effects(text, query.database, query.sql_mode))
    return list(dict.fromkeys(effect._replace(is_strict=is_strict) for effect in all_effects))


def effects(text: str, database: str, sql_mode: int = 0) -> list[Effect]:
    """Return what a statement does.

    Args:
        text: The statement.
        database: The session's database.
        sql_mode: The session's.
    """
    remaining = list(tokens(text, escapes=not sql_mode & _NO_ESCAPES))
    words = [token.word for token in remaining[:8]]
    while words and words[0] == "":
        remaining, words = remaining[1:], words[1:]
    if not words:
        return []
    if words[:2] == ["SET", "STATEMENT"]:  # of MariaDB: settings for one statement
        start = next((at for at, token in enumerate(remaining) if token.word == "FOR"), len(remaining))
        remaining = remaining[start + 1 :]
        words = [token.word for token in remaining[:8]] or [""]
    reader = StatementReader(remaining, database)
    if words[0] == "TRUNCATE":
        reader.skip("TRUNCATE", "TABLE")
        return [Effect("truncate", *reader.table())]
    if words[0] == "DROP":
        return list(_dropped(reader))
    if words[0] == "RENAME" and words[1:2] in (["TABLE"], ["TABLES"]):
        return list(_renamed(reader))
    if words[0] == "CREATE" and "TABLE" in words[1:5] and "TEMPORARY" not in words[1:4]:
        reader.skip("CREATE", "OR", "REPLACE", "TABLE", "IF", "NOT", "EXISTS")
        is_versioned, table = reader.has("SYSTEM VERSIONING"), reader.table()
        if "REPLACE" in words[1:3]:
            return [Effect("replace", *table)]
        return [Effect("versioned", *table)] if is_versioned else []
    if words[0] == "ALTER" and "TABLE" in words[1:5]:
        reader.skip("ALTER", "ONLINE", "OFFLINE", "IGNORE")
        reader.next_token()
        reader.skip("IF", "EXISTS")
        return list(_altered(reader, ignores="IGNORE" in words[1:3]))
    if words[0] in _CHANGES_OF_ROWS:
        return list(_named(reader))
    return []


def _named(reader: StatementReader) -> Iterator[Effect]:
    """Yield the tables that a statement names where it changes rows."""
    while not reader.is_over:
        if reader.skip(*_BEFORE_A_TABLE):
            yield Effect("rows", *reader.table())
        else:
            reader.next_token()


def _dropped(reader: StatementReader) -> Iterator[Effect]:
    reader.next_token()
    if reader.skip("DATABASE", "SCHEMA"):
        reader.skip("IF", "EXISTS")
        yield Effect("drop database", reader.next_token(), "")
    elif reader.word in ("TABLE", "TABLES"):
        reader.next_token()
        reader.skip("IF", "EXISTS")
        for part in reader.parts():
            yield Effect("drop", *part.table())


def _renamed(reader: StatementReader) -> Iterator[Effect]:
    reader.next_token()
    reader.next_token()
    reader.skip("IF", "EXISTS")
    for part in reader.parts():
        old = part.table()
        while not part.is_over and not part.skip("TO"):
            part.next_token()
        yield Effect("rename", *old, (part.table(),))


def _altered(reader: StatementReader, ignores: bool) -> Iterator[Effect]:
    table = reader.table()
    if reader.skip("WAIT"):
        reader.next_token()
    reader.skip("NOWAIT")
    altering = alteration(reader, ignores)
    if altering.truncates:
        yield Effect("partition", *table)
    for other in altering.others:
        yield Effect("columns", *other, alteration=Alteration(why=altering.why))
    if altering.may_describe or altering.why or altering.cascades:
        yield Effect("columns", *table, alteration=altering)
    if altering.name:
        yield Effect("rename", *table, (altering.name,))
