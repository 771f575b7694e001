"""Reads the words, names and strings of a statement, one after the other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["SqlToken", "StatementReader", "tokens"]

_FORM = r"""
    (?P<skip>\s+|/\*(?!M?!).*?\*/|--(?=\s)[^\n]*|\#[^\n]*|/\*M?!\d*|\*/)
    |`(?P<back>(?:[^`]|``)*)`
    |"(?P<double>(?:[^"{escape}]|""{escaped})*)"
    |(?P<string>'(?:[^'{escape}]|''{escaped})*')
    |(?P<word>[\w$@\u0080-\uffff]+)
    |(?P<mark>.)
"""
_ESCAPED, _PLAIN = (
    re.compile(_FORM.replace("{escape}", one).replace("{escaped}", other), re.VERBOSE | re.DOTALL)
    for one, other in (("\\\\", "|\\\\."), ("", ""))
)
"""With and without backslashes that escape (`NO_BACKSLASH_ESCAPES`)."""
_ESCAPE = re.compile(r"\\(.)|''", re.DOTALL)


class SqlToken(NamedTuple):
    """A word, a mark, or what stands in quotes."""

    text: str
    is_name: bool  # written in quotes

    @property
    def word(self) -> str:
        """The word in capitals; empty for what stands in quotes."""
        return "" if self.is_name else self.text.upper()

    @property
    def label(self) -> str:
        """What a string says."""
        inner = self.text[1:-1] if self.text.startswith("'") else self.text
        return _ESCAPE.sub(lambda match: match[1] or "'", inner)


def tokens(text: str, escapes: bool = True) -> Iterator[SqlToken]:
    """Yield the tokens of a statement.

    Args:
        text: The statement.
        escapes: Whether a backslash in a string escapes what follows.
    """
    for match in (_ESCAPED if escapes else _PLAIN).finditer(text):
        kind, value = match.lastgroup, match[0]
        if kind == "back":
            yield SqlToken(value[1:-1].replace("``", "`"), True)
        elif kind == "double":
            yield SqlToken(value[1:-1].replace('""', '"'), True)
        elif kind == "string":
            yield SqlToken(value, True)
        elif kind != "skip":
            yield SqlToken(value, False)


class StatementReader:
    """Reads the tokens of a statement, one after the other."""

    def __init__(self, tokens: list[SqlToken], database: str) -> None:
        self._tokens = tokens
        self._database = database
        self._at = 0

    @property
    def word(self) -> str:
        """The next word in capitals."""
        return self._tokens[self._at].word if self._at < len(self._tokens) else ""

    @property
    def head(self) -> str:
        """The next two words."""
        return " ".join(token.word for token in self._tokens[self._at : self._at + 2])

    @property
    def is_over(self) -> bool:
        """Whether nothing is left."""
        return self._at >= len(self._tokens)

    def skip(self, *words: str) -> bool:
        """Skip these words, as far as they are there; return whether one of them was."""
        before = self._at
        while self.word and self.word in words:
            self._at += 1
        return self._at > before

    def next_token(self) -> str:
        """Return the next token."""
        self._at += 1
        return self._tokens[self._at - 1].text if self._at <= len(self._tokens) else ""

    def table(self) -> tuple[str, str]:
        """Return the database and the name of a table."""
        name = self.next_token()
        if self.word == ".":
            self.next_token()
            return name, self.next_token()
        return self._database, name

    @property
    def rest(self) -> list[SqlToken]:
        """The tokens that are left."""
        return self._tokens[self._at :]

    def brackets(self) -> StatementReader | None:
        """Skip what stands in brackets, and return it; None if no bracket is next."""
        if self.word != "(":
            return None
        depth, start = 0, self._at
        while not self.is_over:
            depth += (self.word == "(") - (self.word == ")")
            self._at += 1
            if not depth:
                break
        return StatementReader(self._tokens[start + 1 : self._at - 1], self._database)

    def parts(self) -> Iterator[StatementReader]:
        """Yield what stands between the commas that are not in brackets."""
        part: list[SqlToken] = []
        depth = 0
        for token in self._tokens[self._at :]:
            depth += (token.word == "(") - (token.word == ")")
            if token.word == "," and not depth:
                yield StatementReader(part, self._database)
                part = []
            else:
                part.append(token)
        yield StatementReader(part, self._database)

    @property
    def has_backslash(self) -> bool:
        """Whether there is a backslash anywhere."""
        return any("\\" in token.text for token in self._tokens)

    def has(self, words: str) -> bool:
        """Return whether words follow each other anywhere."""
        return f" {words} " in f" {' '.join(token.word for token in self._tokens)} "
