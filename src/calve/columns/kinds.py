"""Finds the kinds of JSON numbers and texts; a column of the kind keeps every digit.

A date-time is ISO 8601 with a time of day, with an offset or without. The patterns are valid in Python and RE2.
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation

from calve.columns.node import Kind

__all__ = ["MICROSECONDS", "TIMESTAMP", "number_kind", "text_kind"]

_YEAR = "(?:000[2-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-8][0-9]{3}|9[0-8][0-9]{2}|99[0-8][0-9]|999[0-8])"
_DAY = (
    "(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    "|02-(?:0[1-9]|1[0-9]|2[0-8]))"
)
_FOURTH = "(?:0[48]|[2468][048]|[13579][26])"
_LEAP_DAY = f"(?:[0-9]{{2}}{_FOURTH}|{_FOURTH}00)-02-29"
_ZONE = " ?(?:[Zz]|[+-](?:(?:0[0-9]|1[0-7])(?::?[0-5][0-9])?|18(?::?00)?))"


def _pattern(fraction: str) -> str:
    """Return a pattern of date-times in the years 1 to 9999, UTC: the first and last year allow no offset."""
    clock = f"[Tt ](?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:[.,]{fraction})?)?"
    return f"(?:(?:{_YEAR}-{_DAY}|{_LEAP_DAY}){clock}(?:{_ZONE})?|(?:0001|9999)-{_DAY}{clock}(?: ?[Zz])?)"


MICROSECONDS = _pattern("[0-9]{1,6}0*")
"""Date-times that a column of microseconds can represent."""
TIMESTAMP = _pattern("[0-9]+")
"""Date-times of any precision."""
_SHORTEST_TIMESTAMP, _SURE_DIGITS = 16, 15
_is_microseconds, _is_timestamp = re.compile(MICROSECONDS).fullmatch, re.compile(TIMESTAMP).fullmatch


def number_kind(text: str) -> Kind:
    """Return the kind of a JSON number."""
    if text.lstrip("-").isdigit():
        if len(text) <= _SURE_DIGITS:
            return Kind.LONG
        if len(text) > 20 or not -(2**63) <= int(text) < 2**63:
            return Kind.DIGITS
        return Kind.LONG if int(float(text)) == int(text) else Kind.WIDE_LONG
    try:
        return Kind.DOUBLE if Decimal(repr(float(text))) == Decimal(text) else Kind.DIGITS
    except InvalidOperation:  # an exponent of 19 digits
        return Kind.DIGITS if text.upper().partition("E")[0].strip("-0.") else Kind.DOUBLE


def text_kind(text: str) -> Kind:
    """Return the kind of a JSON string."""
    if len(text) < _SHORTEST_TIMESTAMP or text[4] != "-" or not _is_timestamp(text):
        return Kind.STRING
    if not _is_microseconds(text):
        return Kind.NANOS
    return Kind.LOCAL_DATE_TIME if set("Zz+-").isdisjoint(text[_SHORTEST_TIMESTAMP:]) else Kind.DATE_TIME
