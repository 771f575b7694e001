"""The tokens of an expression.

The word operators carry their blanks, as in Data Prepper: `and`, `or`, `in`, `not in` and `typeof` need one blank on
each side, `not` one behind it; without them they are plain names, which the parser refuses with a hint.
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
    ("${", "A field is written /name here, and \\$ is a dollar sign in a string"),
    ("'", 'Strings take double quotes: "text"'),
    ("=", "Equality is written =="),
    ("&", 'Write " and "'),
    ("|", 'Write " or "'),
    ("!", 'Write "not "'),
    ("[", "A list element is written /list/0"),
    ('"', 'A string ends with ", holds no $ (write \\$), and after \\ only one of b t n f r " \' \\ $'),
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
    """Yield the tokens of an expression, and one of kind `end` behind them.

    A pointer in double quotes comes as `escaped` with the text between its quotes: it is a pointer, but a plain string
    as the argument of a function that takes no pointer there. A string's escapes stay as they are written.

    Raises:
        ExpressionSyntaxError: A character that begins no token.
    """
    at = 0
    while at < len(text):
        found = _TOKENS.match(text, at)
        if found is None or "\0" in found[0]:
            raise _unknown(text, at)
        kind = str(found.lastgroup)
        if kind != "blank":
            yield Token("string" if kind == "raw" else kind, found[kind], at)
        at = found.end()
    yield Token("end", "", at)


def _unknown(text: str, at: int) -> ExpressionSyntaxError:
    hint = next((hint for start, hint in _HINTS if text.startswith(start, at)), "")
    if text[at].isdigit():
        return ExpressionSyntaxError("not a number", text, at, hint="Write 10, 1.5 or 1.5e3, without leading zeros")
    return ExpressionSyntaxError(f"unexpected character {text[at]!r}", text, at, hint=hint)
