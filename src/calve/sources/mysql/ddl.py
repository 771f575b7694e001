"""Reads what a statement of the log does to tables: the rows have no trace of it.

Only the heads of statements are read, and the parts of ALTER TABLE that rename columns, remove rows, or certainly leave
the columns as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from calve.sources.mysql.declared import in_charset
from calve.sources.mysql.events import Query

__all__ = ["Effect", "effects", "effects_of"]

_TOKEN = re.compile(
    r"""
    (?P<skip>\s+|/\*(?!M?!).*?\*/|--(?=\s)[^\n]*|\#[^\n]*|/\*M?!\d*|\*/)
    |`(?P<back>(?:[^`]|``)*)`
    |"(?P<double>(?:[^"\\]|""|\\.)*)"
    |(?P<string>'(?:[^'\\]|''|\\.)*')
    |(?P<word>[\w$@\u0080-\uffff]+)
    |(?P<mark>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_CHANGES_OF_ROWS = frozenset({"INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD"})
_LEAVES_COLUMNS = re.compile(
    r"(ADD|DROP|RENAME) (INDEX|KEY|UNIQUE|FULLTEXT|SPATIAL|FOREIGN|CHECK|PARTITION)\b"
    r"|(ALTER|ALGORITHM|AUTO_INCREMENT|COMMENT|ENGINE|FORCE|LOCK|ROW_FORMAT)\b"
).match
"""How parts of ALTER TABLE begin that change neither the names, types and order of columns nor the key.

None of these words is the name of a column there, unless it is in quotes.
"""
_DESCRIBES = frozenset({"drop", "drop database", "replace", "columns"})
_BEFORE_A_TABLE = ("INTO", "FROM", "UPDATE", "TABLE", "JOIN", "IGNORE", "LOW_PRIORITY")
_PARTITION_LOSSES = (
    "TRUNCATE PARTITION",
    "DROP PARTITION",
    "EXCHANGE PARTITION",
    "IMPORT TABLESPACE",
    "DISCARD TABLESPACE",
)


class _Token(NamedTuple):
    text: str
    is_name: bool  # written in quotes

    @property
    def word(self) -> str:
        return "" if self.is_name else self.text.upper()


class Effect(NamedTuple):
    """What a statement does to a table.

    Attributes:
        kind: `truncate`, `drop`, `drop database`, `replace`, `rename`, `columns` (they may be others) or `rows`.
        database: The table's database.
        table: Its name; empty for `drop database`.
        to: Of `rename`: the new database and name; of `columns`: the old name and the new name of each renamed column.
    """

    kind: str
    database: str
    table: str
    to: tuple[tuple[str, str], ...] = ()

    @property
    def describes(self) -> list[tuple[str, str]]:
        """The tables that may have other columns after it: each with its database; without a name all of that."""
        if self.kind == "rename":
            return [(self.database, self.table), *self.to]
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
    return list(dict.fromkeys(effect for text in texts for effect in effects(text, query.database)))


def effects(text: str, database: str) -> list[Effect]:
    """Return what a statement does.

    Args:
        text: The statement.
        database: The session's database.
    """
    tokens = list(_tokens(text))
    words = [token.word for token in tokens[:8]]
    while words and words[0] == "":
        tokens, words = tokens[1:], words[1:]
    if not words:
        return []
    if words[:2] == ["SET", "STATEMENT"]:  # of MariaDB: settings for one statement
        start = next((at for at, token in enumerate(tokens) if token.word == "FOR"), len(tokens))
        tokens = tokens[start + 1 :]
        words = [token.word for token in tokens[:8]] or [""]
    reader = _Reader(tokens, database)
    if words[0] == "TRUNCATE":
        reader.skip("TRUNCATE", "TABLE")
        return [Effect("truncate", *reader.table())]
    if words[0] == "DROP":
        return list(_dropped(reader))
    if words[0] == "RENAME" and words[1:2] in (["TABLE"], ["TABLES"]):
        return list(_renamed(reader))
    if words[0] == "CREATE" and "TABLE" in words[1:5] and "TEMPORARY" not in words[1:4]:
        reader.skip("CREATE", "OR", "REPLACE", "TABLE", "IF", "NOT", "EXISTS")
        return [Effect("replace", *reader.table())] if "REPLACE" in words[1:3] else []
    if words[0] == "ALTER" and "TABLE" in words[1:5]:
        reader.skip("ALTER", "ONLINE", "OFFLINE", "IGNORE")
        reader.take()
        reader.skip("IF", "EXISTS")
        return list(_altered(reader))
    if words[0] in _CHANGES_OF_ROWS:
        return list(_named(reader))
    return []


def _named(reader: _Reader) -> Iterator[Effect]:
    """Yield the tables that a statement names where it changes rows."""
    while not reader.is_over:
        if reader.skip(*_BEFORE_A_TABLE):
            yield Effect("rows", *reader.table())
        else:
            reader.take()


def _tokens(text: str) -> Iterator[_Token]:
    for match in _TOKEN.finditer(text):
        kind, value = match.lastgroup, match[0]
        if kind == "back":
            yield _Token(value[1:-1].replace("``", "`"), True)
        elif kind == "double":
            yield _Token(value[1:-1].replace('""', '"'), True)
        elif kind == "string":
            yield _Token(value, True)
        elif kind != "skip":
            yield _Token(value, False)


class _Reader:
    """Reads the tokens of a statement, one after the other."""

    def __init__(self, tokens: list[_Token], database: str) -> None:
        self._tokens = tokens
        self._database = database
        self._at = 0

    @property
    def word(self) -> str:
        return self._tokens[self._at].word if self._at < len(self._tokens) else ""

    @property
    def head(self) -> str:
        """The next two words."""
        return " ".join(token.word for token in self._tokens[self._at : self._at + 2])

    @property
    def is_over(self) -> bool:
        return self._at >= len(self._tokens)

    def skip(self, *words: str) -> bool:
        """Skip these words, as far as they are there; return whether one of them was."""
        before = self._at
        while self.word and self.word in words:
            self._at += 1
        return self._at > before

    def take(self) -> str:
        """Return the next token."""
        self._at += 1
        return self._tokens[self._at - 1].text if self._at <= len(self._tokens) else ""

    def table(self) -> tuple[str, str]:
        """Return the database and the name of a table."""
        name = self.take()
        if self.word == ".":
            self.take()
            return name, self.take()
        return self._database, name

    def parts(self) -> Iterator[_Reader]:
        """Yield what stands between the commas that are not in brackets."""
        part: list[_Token] = []
        depth = 0
        for token in self._tokens[self._at :]:
            depth += (token.word == "(") - (token.word == ")")
            if token.word == "," and not depth:
                yield _Reader(part, self._database)
                part = []
            else:
                part.append(token)
        yield _Reader(part, self._database)

    @property
    def has_backslash(self) -> bool:
        """Whether there is a backslash anywhere."""
        return any("\\" in token.text for token in self._tokens)

    def has(self, words: str) -> bool:
        """Return whether words follow each other anywhere."""
        return f" {words} " in f" {' '.join(token.word for token in self._tokens)} "


def _dropped(reader: _Reader) -> Iterator[Effect]:
    reader.take()
    if reader.skip("DATABASE", "SCHEMA"):
        reader.skip("IF", "EXISTS")
        yield Effect("drop database", reader.take(), "")
    elif reader.word in ("TABLE", "TABLES"):
        reader.take()
        reader.skip("IF", "EXISTS")
        for part in reader.parts():
            yield Effect("drop", *part.table())


def _renamed(reader: _Reader) -> Iterator[Effect]:
    reader.take()
    reader.take()
    reader.skip("IF", "EXISTS")
    for part in reader.parts():
        old = part.table()
        while not part.is_over and not part.skip("TO"):
            part.take()
        yield Effect("rename", *old, (part.table(),))


def _altered(reader: _Reader) -> Iterator[Effect]:
    table = reader.table()
    if reader.skip("WAIT"):
        reader.take()
    reader.skip("NOWAIT")
    if any(reader.has(words) for words in _PARTITION_LOSSES):
        yield Effect("truncate", *table)
    columns = []
    may_describe = reader.has_backslash  # where a string ends depends on the session's sql_mode
    for part in reader.parts():
        may_describe |= not _LEAVES_COLUMNS(part.head)
        if part.skip("CHANGE"):
            part.skip("COLUMN", "IF", "EXISTS")
            columns.append((part.take(), part.take()))
        elif part.skip("RENAME"):
            if part.skip("COLUMN"):
                part.skip("IF", "EXISTS")
                old = part.take()
                part.skip("TO")
                columns.append((old, part.take()))
            elif part.word not in ("INDEX", "KEY"):
                part.skip("TO", "AS", "=")
                yield Effect("rename", *table, (part.table(),))
    if may_describe:
        yield Effect("columns", *table, tuple((old, new) for old, new in columns if old != new))
