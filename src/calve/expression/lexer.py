"""The tokens of an expression.

Word operators need spaces, as in Data Prepper: `and`, `or`, `in`, `not in` and `typeof` one space on each side, `not`
one after it. Without spaces they are plain names, which the parser refuses with a hint.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from calve.expression.errors import ExpressionSyntaxError

__all__ = ["Token", "is_plain", "tokens"]

_WORDS = r"(?<= )(?:and|or|in|not in|typeof)(?= )|not(?= )"
_POINTER = r"(?:/[A-Za-z0-9_.@]+)+"
_TOKENS = re.compile(
    rf"""(?P<blank>[ \t\r\n]+)
    |(?P<operator>(?-x:{_WORDS})|==|!=|=~|!~|<=|>=|[<>+\-*%(),{{}}]|/(?![A-Za-z0-9_.@]))
    |(?P<pointer>{_POINTER})
    |(?P<float>(?:0|[1-9][0-9]*)\.[0-9]+(?:[eE]-?[0-9]+)?(?![A-Za-z0-9_.]))
    |(?P<integer>(?:0|[1-9][0-9]*)(?![A-Za-z0-9_.]))
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |\"\"\"(?P<raw>.*?)\"\"\"
    |\"(?P<escaped>/(?:[^\"\\]|\\[btnfr\"'\\/])*)\"
    |\"(?P<string>(?:[^\"\\$]|\\[btnfr\"'\\$])*)\"
    """,
    re.VERBOSE | re.DOTALL,
)
_HINTS = (
    ("${", "Write a field as /name here, and a dollar sign in a string as \\$"),
    ("'", 'Write strings in double quotes: "text"'),
    ("=", "Write == for equality"),
    ("&", 'Write " and "'),
    ("|", 'Write " or "'),
    ("!", 'Write "not "'),
    ("[", "Write a list element as /list/0"),
    ('"', 'A string ends with "; write $ as \\$; after \\ only b t n f r " \' \\ $ are allowed'),
)


@dataclass(frozen=True)
class Token:
    """One token; `kind` is `operator`, `pointer`, `float`, `integer`, `name`, `string` or `end`."""

    kind: str
    text: str
    at: int


def is_plain(pointer: str) -> bool:
    """Return whether a pointer needs no quotes."""
    return re.fullmatch(_POINTER, pointer) is not None


def tokens(text: str) -> Iterator[Token]:
    """Yield the tokens of an expression, then one of kind `end`.

    A pointer in double quotes is of kind `escaped`, with the text between its quotes: it is a pointer, but a plain
    string as an argument that cannot be a pointer. The escapes of a string stay as they are.

    Raises:
        ExpressionSyntaxError: A character cannot begin a token.
    """
    at = 0
    while at < len(text):
        match = _TOKENS.match(text, at)
        if match is None or "\0" in match[0]:
            raise _unknown(text, at)
        kind = str(match.lastgroup)
        if kind != "blank":
            yield Token("string" if kind == "raw" else kind, match[kind], at)
        at = match.end()
    yield Token("end", "", at)


def _unknown(text: str, at: int) -> ExpressionSyntaxError:
    hint = next((hint for start, hint in _HINTS if text.startswith(start, at)), "")
    if text[at].isdigit():
        return ExpressionSyntaxError("not a number", text, at, hint="Write 10, 1.5 or 1.5e3, without leading zeros")
    return ExpressionSyntaxError(f"unexpected character {text[at]!r}", text, at, hint=hint)
