"""Divides the text of a `.proto` file into tokens (protobuf.dev, language specification, "Lexical elements")."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from calve.event.envelope.schema import doc_of

__all__ = ["ProtoError", "ProtoToken", "Tokens", "number_of", "text_of"]

_TOKEN = re.compile(
    r"""(?P<space>\s+)
    |(?P<comment>//[^\n]*|/\*.*?\*/)
    |(?P<word>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<number>\.?[0-9](?:[eE][+-]|[A-Za-z0-9_.])*)
    |(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<symbol>[^\w\s"'])""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(rb"\\([abfnrtv\\'\"?]|[0-7]{1,3}|[xX][0-9a-fA-F]{1,2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})")
_PLAIN = dict(zip(b"abfnrtv", b"\a\b\f\n\r\t\v", strict=True))
_OPENING, _CLOSING = ("{", "(", "[", "<"), ("}", ")", "]", ">")


class ProtoError(Exception):
    """A `.proto` file, or a type in it, cannot be used. The text is a sentence without a final full stop."""


class ProtoToken(NamedTuple):
    """A token.

    Attributes:
        kind: `word`, `number`, `text` or `symbol`; `end`.
        text: Its text.
        line: Its line.
        comment: The comment directly before it.
        remark: The comment behind it in its line.
    """

    kind: str
    text: str
    line: int
    comment: str = ""
    remark: str = ""


class Tokens:
    """The tokens of one file, which are taken one after another.

    Args:
        text: The file.
    """

    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text.removeprefix("\ufeff")))
        self._at = 0

    @property
    def next(self) -> ProtoToken:
        """The token that `next_token` will return."""
        return self._tokens[self._at]

    def next_token(self) -> ProtoToken:
        """Return the next token; the last one, `end`, stays."""
        token = self._tokens[self._at]
        self._at += token.kind != "end"
        return token

    def skip(self, *texts: str) -> bool:
        """Take the next tokens if they have these texts."""
        following = self._tokens[self._at : self._at + len(texts)]
        is_found = tuple(token.text for token in following if token.kind != "text") == texts
        self._at += len(texts) * is_found
        return is_found

    def is_before(self, text: str) -> bool:
        """Return whether the token after the next one has this text."""
        return self.next.kind != "end" and self._tokens[self._at + 1].text == text

    def expect(self, text: str) -> None:
        """Take a token with this text.

        Raises:
            ProtoError: The next token is another one.
        """
        if not self.skip(text):
            raise self.unexpected(f"{text!r}")

    def word(self) -> str:
        """Take a word.

        Raises:
            ProtoError: The next token is none.
        """
        if self.next.kind != "word":
            raise self.unexpected("a name")
        return self.next_token().text

    def name(self) -> str:
        """Take words with dots between them, perhaps with a dot before them."""
        parts = ["." if self.skip(".") else "", self.word()]
        while self.skip("."):
            parts += [".", self.word()]
        return "".join(parts)

    def number(self) -> int:
        """Take a whole number, perhaps with a sign."""
        sign = -1 if self.skip("-") else 1
        if self.next.kind != "number":
            raise self.unexpected("a number")
        return sign * number_of(self.next_token())

    def string(self) -> bytes:
        """Take texts that follow each other as one."""
        if self.next.kind != "text":
            raise self.unexpected("a text")
        texts = []
        while self.next.kind == "text":
            texts.append(text_of(self.next_token()))
        return b"".join(texts)

    def until(self, *ends: str) -> list[ProtoToken]:
        """Take all tokens before one of the texts that is not in brackets; the end itself stays."""
        tokens: list[ProtoToken] = []
        open_brackets = 0
        while open_brackets or self.next.text not in ends or self.next.kind == "text":
            token = self.next_token()
            if token.kind == "end":
                raise self.unexpected(" or ".join(map(repr, ends)))
            if token.kind == "symbol":
                open_brackets += (token.text in _OPENING) - (token.text in _CLOSING)
            tokens.append(token)
        return tokens

    def unexpected(self, wanted: str) -> ProtoError:
        """Return the error that something else is next."""
        actual = "the end of the file" if self.next.kind == "end" else repr(self.next.text)
        return ProtoError(f"Line {self.next.line} has {actual} instead of {wanted}")


def _tokens(text: str) -> Iterator[ProtoToken]:
    at, line, waiting, comments = 0, 1, ProtoToken("", "", 0), list[str]()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ProtoError(f"Line {line} has a text without an end")
        if match.lastgroup == "comment" and line == waiting.line and not comments:
            waiting = waiting._replace(remark=_comment(match[0]))
        elif match.lastgroup == "comment":
            comments.append(_comment(match[0]))
        elif match.lastgroup == "space":
            comments = comments if match[0].count("\n") < 2 else []
        else:
            if waiting.kind:
                yield waiting
            waiting, comments = ProtoToken(str(match.lastgroup), match[0], line, "\n".join(comments)), []
        at, line = match.end(), line + match[0].count("\n")
    if waiting.kind:
        yield waiting
    yield ProtoToken("end", "", line)


def _comment(text: str) -> str:
    """Return what a comment says, without its slashes and stars."""
    lines = text[2:].removesuffix("*/").splitlines() if text.startswith("/*") else [text.lstrip("/")]
    return doc_of("\n".join(line.strip().removeprefix("*").strip() for line in lines))


def number_of(token: ProtoToken) -> int:
    """Return a whole number that is decimal, hexadecimal or octal.

    Raises:
        ProtoError: It is none.
    """
    text = token.text
    try:
        return int(text, 8) if text.startswith("0") and text.isdecimal() else int(text, 0)
    except ValueError:
        raise ProtoError(f"Line {token.line} has {text!r} instead of a whole number") from None


def text_of(token: ProtoToken) -> bytes:
    """Return the bytes that a text in quotes means."""
    return _ESCAPE.sub(_meant, token.text[1:-1].encode("utf-8", "surrogatepass"))


def _meant(match: re.Match[bytes]) -> bytes:
    escape = match[1]
    if escape[0] in _PLAIN:
        return bytes([_PLAIN[escape[0]]])
    if escape[:1].isdigit():
        return bytes([int(escape, 8) & 0xFF])
    if escape[:1] in (b"x", b"X"):
        return bytes([int(escape[1:], 16)])
    if escape[:1] in (b"u", b"U"):
        return chr(min(int(escape[1:], 16), 0x10FFFF)).encode("utf-8", "surrogatepass")
    return escape
