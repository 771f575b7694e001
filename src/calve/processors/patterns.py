r"""Regular expressions of processors: RE2, as in conditions, whose time is linear in the length of the text.

Data Prepper's are Java's. Lookaround, backreferences and possessive quantifiers are refused (decision 42).
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from calve.errors import SettingsError
from calve.expression.regex import require_pattern

__all__ = [
    "found_groups",
    "has_match",
    "matcher",
    "pattern",
    "replace_all",
    "replacement",
    "split_all",
    "split_matches",
]

_REFERENCE = re.compile(r"\\(.|$)|\$(\d+)|\$\{(\w+)\}|\$", re.DOTALL)
_NAMED = re.compile(r"(\\.|\[(?:\\.|[^\]\\])+\]|\(\?)(?:<(?=[A-Za-z]))?", re.DOTALL)
"""An escape, a class of characters, or what begins a group; then the rest of the beginning of a named one."""
_MEMO = 10_000
"""The most answers that a matcher remembers."""


def _arrow() -> Any:
    """Return Arrow's functions: settings import this module, and need none of them."""
    import pyarrow.compute as pc

    return pc


def _array(texts: Sequence[str]) -> pa.Array:
    return pa.array(texts, pa.string())


def pattern(text: str | None) -> object:
    """Check a regular expression of the settings.

    Raises:
        SettingsError: It is invalid, or needs more than RE2 has.
    """
    if text is not None:
        require_pattern(_re2(text))
    return None


def _re2(regex: str) -> str:
    """Return a pattern with named groups as RE2 has them, `(?P<name>`."""
    return _NAMED.sub(lambda match: f"{match[1]}P<" if match[0] == "(?<" else match[0], regex)


def matcher(text: str) -> Callable[[str], bool]:
    """Return a function that returns whether a whole text matches; it remembers its answers."""
    answers: dict[str, bool] = {}

    def matches(value: str) -> bool:
        if value not in answers:
            if len(answers) >= _MEMO:
                answers.clear()
            answers[value] = has_match([value], f"^(?:{text})$")[0]
        return answers[value]

    return matches


def has_match(texts: Sequence[str], regex: str) -> list[bool]:
    """Return for each text whether a part of it matches."""
    matches: list[bool] = _arrow().match_substring_regex(_array(texts), _re2(regex)).to_pylist()
    return matches


def replace_all(texts: Sequence[str], regex: str, with_: str) -> list[str]:
    r"""Replace every match; `with_` is RE2's: `\1` is a group."""
    replaced: list[str] = (
        _arrow().replace_substring_regex(_array(texts), pattern=_re2(regex), replacement=with_).to_pylist()
    )
    return replaced


def split_all(texts: Sequence[str], regex: str) -> list[list[str]]:
    """Split each text at every match, as Java does: an empty match at the beginning makes no part.

    Arrow's own function never ends if the pattern matches nothing.
    """
    return [parts[2::2] if parts[:2] == ["", ""] else parts[::2] for parts in split_matches(texts, regex)]


def split_matches(texts: Sequence[str], regex: str) -> list[list[str]]:
    """Split each text around every match: text, match, text, match, …, text."""
    mark = "\0"  # no text has what is put around matches
    while any(mark in text for text in texts):
        mark = f"\0{secrets.token_hex(16)}\0"
    return [text.split(mark) for text in replace_all(texts, regex, f"{mark}\\0{mark}")]


def found_groups(texts: Sequence[str], regex: str) -> list[dict[str, str] | None]:
    """Return the named groups of the first match in each text; all groups of the pattern must be named."""
    groups: list[dict[str, str] | None] = _arrow().extract_regex(_array(texts), pattern=_re2(regex)).to_pylist()
    return groups


def replacement(text: str, regex: str) -> str:
    r"""Return a replacement of Java (`$1`, `${name}`, `\$`) as one of RE2.

    Raises:
        SettingsError: It names a group that the pattern lacks.
    """
    groups = _groups(regex)

    def one(match: re.Match[str]) -> str:
        escaped, by_number, by_name = match.groups()
        if escaped:
            return "\\\\" if escaped == "\\" else escaped
        digits = _group_digits(by_number or "", groups[""])
        number = groups.get(by_name) if by_name else int(digits) if digits else None
        if number is None or number > groups[""] or number > 9:
            hint = r"Write $1 to $9 or ${name} for a group of `from`, and \$ for a dollar"
            raise SettingsError(f"{match[0]} is not a group of the pattern", step="settings", hint=hint)
        return f"\\{number}{(by_number or '')[len(digits) :]}"

    return _REFERENCE.sub(one, text)


def _group_digits(digits: str, count: int) -> str:
    """Return the digits behind a dollar that are the number of a group, as Java reads them: those that it has."""
    length = 1
    while length < len(digits) and int(digits[: length + 1]) <= count:
        length += 1
    return digits[:length]


def _groups(regex: str) -> dict[str, int]:
    """Return the numbers of named groups, and below the empty name how many groups there are."""
    groups, count = {}, 0
    for match in re.finditer(r"\\.|\[(?:\\.|[^\]\\])+\]|\((\?P?<([A-Za-z]\w*)>|\?)?", regex, re.DOTALL):
        if not match[0].startswith("(") or match[1] == "?":
            continue
        count += 1
        if match[2]:
            groups[match[2]] = count
    groups[""] = count
    return groups
