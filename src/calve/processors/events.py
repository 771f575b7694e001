"""Processors that change the number of events."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal

from calve.processors.expressions import Compiler, condition
from calve.processors.fields import Event, FieldKey, opened
from calve.processors.patterns import pattern
from calve.processors.step import Drop, ProcessorStep, SplitStep
from calve.processors.strings import java_split
from calve.settings.option import option

__all__ = ["DropEvents", "SplitEvent", "copied_event"]


@dataclass(frozen=True)
class DropEvents:
    """Removes events: no sink gets them. They are counted as dropped."""

    drop_when: str = option(
        doc="A condition: events for which it is true are dropped; `true` drops all.", check=condition
    )
    handle_failed_events: Literal["drop", "drop_silently", "skip", "skip_silently"] = option(
        "skip", "With `drop` or `drop_silently`, events for which the condition cannot be evaluated are dropped, too."
    )

    def steps(self, compiler: Compiler) -> list[ProcessorStep]:
        """Build the step."""
        return [Drop(compiler.condition(self.drop_when, self.handle_failed_events.startswith("drop")))]


@dataclass(frozen=True)
class SplitEvent:
    """Splits an event into several, one for each part of a field, with all other fields."""

    field: str = option(doc="The key of a string or a list.", check=FieldKey.checked)
    delimiter: str | None = option(None, "What separates the parts of a string.", minimum=1)
    delimiter_regex: str | None = option(None, "A regular expression for it, instead of `delimiter`.", check=pattern)
    split_when: str | None = option(None, "A condition; only events for which it is true are split.", check=condition)

    def check(self) -> Iterator[tuple[str, str]]:
        """Refuse two delimiters."""
        if self.delimiter and self.delimiter_regex:
            yield "delimiter", "delimiter and delimiter_regex cannot be combined"

    def steps(self, compiler: Compiler) -> list[ProcessorStep]:
        """Build the step."""
        return [SplitStep(partial(self._parts, FieldKey(self.field)), compiler.condition(self.split_when))]

    def _parts(self, key: FieldKey, event: Event) -> list[Event] | None:
        value = opened(key.get(event))
        if type(value) is str and (self.delimiter or self.delimiter_regex):
            value = java_split([value], self.delimiter, self.delimiter_regex)[0]
            if len(value) < 2:
                return None
        if type(value) is not list or not value:
            return None
        key.put(event, value[-1])
        return [*(_with(event, key, part) for part in value[:-1]), event]


def copied_event(event: Event) -> Event:
    """Return a copy of an event that shares no object or list with it; values that are not opened never change."""
    return {name: _copied(value) for name, value in event.items()}


def _with(event: Event, key: FieldKey, part: object) -> Event:
    """Return a copy of an event with another value."""
    copied = copied_event(event)
    key.put(copied, part)
    return copied


def _copied(value: object) -> object:
    if type(value) is dict:
        return copied_event(value)
    return [_copied(item) for item in value] if type(value) is list else value
