"""Names of indexes: their checks, and their date patterns."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from calve.errors import SettingsError
from calve.event.control_characters import has_control
from calve.expression import compile_format
from calve.expression.date_patterns import PatternError, pattern_parts

__all__ = ["check_index", "dated", "fault", "normal", "normal_sql", "pattern"]

_DATE = re.compile(r"%\{([^}]*)\}")
_BAD = re.compile(r'[\\/*?"<>| ,#:\t\n\r]')
_CODES = {
    "yyyy": "{:%Y}", "uuuu": "{:%Y}", "yy": "{:%y}", "MM": "{:%m}", "M": "{0.month}", "dd": "{:%d}", "d": "{0.day}",
    "DDD": "{:%j}", "HH": "{:%H}", "H": "{0.hour}",
}  # fmt: skip
_LONGEST = 255
_STRIPPED, _LEADING = r'[:"*+/\\|?#><]', "^[_-]+"


def check_index(text: str) -> None:
    """Refuse an invalid `index`: a bad name, more than one date, or a date finer than an hour.

    Raises:
        SettingsError: It has the reason.
    """
    if len(_DATE.findall(text)) > 1:
        raise SettingsError("an index can have only one date pattern")
    plain = dated(text, 0)
    static = compile_format(plain).static
    if static is not None and (wrong := fault(static)):
        raise SettingsError(wrong)


def dated(text: str, time_tenths: int) -> str:
    """Put a batch's date into an index's text, in UTC.

    Args:
        text: The `index`, e.g. `logs-%{yyyy.MM.dd}`.
        time_tenths: The batch's time, in tenths of a second since the epoch; a replay has the same, from the ledger.

    Raises:
        SettingsError: The date pattern is invalid.
    """
    at = datetime.fromtimestamp(time_tenths / 10, UTC)
    return _DATE.sub(lambda pattern: _shown(pattern[1], at), text)


def pattern(text: str) -> str:
    """Return a pattern that matches all names of an `index`."""
    return re.sub(r"\*+", "*", re.sub(r"[$%]\{[^}]*\}", "*", text))


def fault(name: str) -> str | None:
    """Return what is wrong with an index's name, or None if it is valid."""
    if not name:
        return "the index name is empty"
    if _BAD.search(name) or has_control(name):
        return f"the index name {name[:100]!r} has a character that is not allowed"
    if name != name.lower():
        return f"the index name {name[:100]!r} has upper-case letters; set normalize_index: true to convert them"
    if name[0] in "-_+" or name in (".", ".."):
        return f"the index name {name[:100]!r} begins with {name[0]!r}"
    if len(name.encode()) > _LONGEST:
        return f"the index name {name[:100]!r}… is longer than {_LONGEST} bytes"
    return None


def normal(name: str) -> str:
    """Make a name valid: lower case, without forbidden characters, and not beginning with `_` or `-`."""
    return re.sub(_LEADING, "", re.sub(_STRIPPED, "", name.lower()))


def normal_sql(name: str) -> str:
    """Return SQL that does the same."""
    return f"regexp_replace(regexp_replace(lower({name}), '{_STRIPPED}', '', 'g'), '{_LEADING}', '')"


def _shown(date: str, at: datetime) -> str:
    try:
        parts = pattern_parts(date)
        if parts:
            return "".join(_CODES[part.text].format(at) if part.is_letters else part.text for part in parts)
    except (PatternError, KeyError):
        pass
    raise SettingsError(f"the date pattern %{{{date}}} may have only yyyy, yy, MM, M, dd, d, DDD, HH, H and 'text'")
