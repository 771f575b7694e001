"""Regular expressions: Data Prepper's are Java's, DuckDB's are RE2's."""

from __future__ import annotations

import re

from calve.expression.probe import refusal

__all__ = ["check_pattern"]

_INTERSECTION = re.compile(r"(?<!\\)\[(?:[^\]\\]|\\.)*&&")
_HINT = "Lookaround, backreferences, possessive quantifiers and && in [ ] are not available"


def check_pattern(pattern: str) -> tuple[str, str] | None:
    """Return why a pattern cannot be used, with a hint; None if it can."""
    if _INTERSECTION.search(pattern):
        return "&& in a character class is not available", _HINT
    reason = refusal("SELECT regexp_full_match('', ?)", pattern)
    return None if reason is None else (f"not a valid regular expression ({reason})", _HINT)
