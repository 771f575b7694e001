"""Regular expressions: Data Prepper's are Java's, DuckDB's are RE2's."""

from __future__ import annotations

import re

from calve.errors import SettingsError
from calve.expression.probe import refusal

__all__ = ["check_pattern", "require_pattern"]

_INTERSECTION = re.compile(r"(?<!\\)\[(?:[^\]\\]|\\.)*&&")
_HINT = "Lookaround, backreferences, possessive quantifiers and && in [ ] are not available"


def check_pattern(pattern: str) -> tuple[str, str] | None:
    """Return why a pattern cannot be used, with a hint; None if it can."""
    if _INTERSECTION.search(pattern):
        return "&& in a character class is not available", _HINT
    reason = refusal("SELECT regexp_full_match('', ?)", pattern)
    return None if reason is None else (f"not a valid regular expression ({reason})", _HINT)


def require_pattern(text: str) -> None:
    """Check a regular expression of the settings.

    Raises:
        SettingsError: It is invalid, or needs more than RE2 has.
    """
    if problem := check_pattern(text):
        raise SettingsError(problem[0], step="settings", hint=problem[1])
