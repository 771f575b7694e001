"""The processor that reads and writes times."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import partial

from calve.convert.date_formats import date_format
from calve.convert.time_zones import time_zone
from calve.errors import SettingsError
from calve.processors.date_output import EPOCHS, iso_format, local_time, time_format
from calve.processors.expressions import Compiler, condition
from calve.processors.fields import Event, FieldKey, opened
from calve.processors.step import ChangeStep, ProcessorError, ProcessorStep
from calve.settings.option import option

__all__ = ["Date", "DateMatch"]

_MOST_DIGITS = {"epoch_second": 10, "epoch_milli": 13, "epoch_micro": 16, "epoch_nano": 19}
_NUMBER = re.compile(r"-?([0-9]{1,19})(?:\.[0-9]{1,9})?")
_ANY_DAY = datetime.date(2000, 1, 1)
Reader = Callable[[str], int | None]


def _zone(name: str) -> object:
    """Check a time zone of the settings."""
    return time_zone(name) and None


def _output(pattern: str | None) -> object:
    """Check a pattern of the settings for texts that are written."""
    return time_format(pattern) if pattern else None


def _locale(name: str | None) -> object:
    """Check a locale of the settings: names of days and months are English."""
    if name and not re.fullmatch(r"(?i)en([-_].*)?|root", name):
        hint = "Names of days and months are read in English; leave the locale out for numbers"
        raise SettingsError(f"the locale {name!r} is not supported", step="settings", hint=hint)
    return None


@dataclass(frozen=True)
class DateMatch:
    """A field with a time, and its patterns."""

    key: str = option(doc="The key of the text or number.", check=FieldKey.checked)
    patterns: list[str] = option(
        doc="Date patterns of Java, such as `dd/MMM/yyyy:HH:mm:ss Z`, tried in order; or one of `epoch_second`, "
        "`epoch_milli`, `epoch_micro` and `epoch_nano`.",
        minimum=1,
    )


@dataclass(frozen=True)
class Date:
    """Reads the time of an event from a field, and writes it in another format."""

    match: list[DateMatch] = option([], "The field with the time: one entry.", maximum=1)
    from_time_received: bool = option(
        False, "Take the time at which the event's batch was begun, instead of `match`; it stays the same over retries."
    )
    destination: str = option("@timestamp", "The key of the result.", check=FieldKey.checked)
    output_format: str | None = option(
        None,
        "The date pattern of the result, or `epoch_second`, `epoch_milli`, `epoch_micro`, `epoch_nano`. Without it "
        "`yyyy-MM-dd'T'HH:mm:ss.SSSXXX`, with six or nine digits of a second for a time that has them.",
        check=_output,
    )
    source_timezone: str = option("UTC", "The time zone of times without one.", check=_zone)
    destination_timezone: str = option("UTC", "The time zone of the result.", check=_zone)
    locale: str | None = option(
        None,
        "Accepted for compatibility with Data Prepper if it is English, such as `en_US`; no effect.",
        check=_locale,
    )
    origination_timestamp_to_metadata: bool = option(
        False, "Accepted for compatibility with Data Prepper; no effect.", aliases=("to_origination_metadata",)
    )
    date_when: str | None = option(None, "A condition; only events for which it is true are changed.", check=condition)

    def check(self) -> Iterator[tuple[str, str]]:
        """Require one source of the time, and valid patterns."""
        if bool(self.match) == self.from_time_received:
            yield "match", "exactly one of match and from_time_received must be set"
        for number, text in enumerate(self.match[0].patterns if self.match else ()):
            try:
                if text not in EPOCHS:
                    date_format(text, today=_ANY_DAY)
            except SettingsError as error:
                yield f"match[0].patterns[{number}]", str(error)

    def steps(self, compiler: Compiler) -> list[ProcessorStep]:
        """Build the step."""
        write = time_format(self.output_format) if self.output_format else iso_format
        into = time_zone(self.destination_timezone)
        put = partial(_put, FieldKey(self.destination), lambda time: write(time, into))
        when = compiler.condition(self.date_when)
        if not self.match:
            received = compiler.begun_tenths * 10**8
            return [ChangeStep(lambda event: put(event, received), when)]
        zone, now = time_zone(self.source_timezone), local_time(compiler.begun_tenths * 10**8, datetime.UTC)
        readers = [_reader(text, zone, now) for text in self.match[0].patterns]
        source = FieldKey(self.match[0].key)
        return [ChangeStep(lambda event: put(event, _read(readers, opened(source.get(event)))), when)]


def _put(key: FieldKey, write: Callable[[int], str | int], event: Event, time: int | None) -> bool:
    if time is None:
        return False  # as in Data Prepper: an event whose time matches no pattern stays
    if not key.put(event, write(time)):
        raise ProcessorError("a value on the way to this key is not an object", key.dotted)
    return True


def _read(readers: list[Reader], value: object) -> int | None:
    if not isinstance(value, str):
        return None
    for read in readers:
        if (time := read(str(value))) is not None:
            return time
    return None


def _reader(pattern: str, zone: datetime.tzinfo, now: datetime.datetime) -> Reader:
    """Compile a pattern to a function from text to nanoseconds since the epoch, or None."""
    unit = EPOCHS.get(pattern)
    if unit is None:
        return date_format(pattern, zone, now.astimezone(zone).date())
    most, least = _MOST_DIGITS[pattern], _MOST_DIGITS[pattern] - 3 if pattern != "epoch_second" else 0

    def read_number(text: str) -> int | None:
        number = _NUMBER.fullmatch(text)
        if number is None or not least < len(number[1]) <= most:
            return None
        time = Decimal(text) * unit
        return int(time) if time == int(time) else None

    return read_number
