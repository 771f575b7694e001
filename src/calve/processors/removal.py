"""Processors that delete entries of an event, or keep only some."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from calve.processors.expressions import Compiler, condition
from calve.processors.fields import MISSING, Event, FieldKey, keys
from calve.processors.patterns import matcher, pattern
from calve.processors.step import ChangeStep, ElementsStep, ProcessorStep, objects_of
from calve.settings.option import option

__all__ = ["DeleteEntries", "DeleteEntry", "SelectEntries"]

_WHEN = "A condition, such as `/status >= 500`; the processor changes only events for which it is true."
_ITERATE = "The key of a list of objects; the processor works on each of them instead of the event."


@dataclass(frozen=True)
class DeleteEntry:
    """Some entries that `delete_entries` deletes."""

    with_keys: list[str] = option([], "The keys to delete.")
    with_keys_regex: list[str] = option([], "Regular expressions for whole top-level keys to delete.")
    exclude_from_delete: list[str] = option([], "Keys that `with_keys_regex` does not delete.")
    delete_when: str | None = option(None, _WHEN, check=condition)
    iterate_on: str | None = option(None, _ITERATE)
    delete_from_element_when: str | None = option(
        None,
        "With `iterate_on`: a condition; only objects of the list for which it is true are changed.",
        check=condition,
    )

    def check(self) -> Iterator[tuple[str, str]]:
        """Require keys or patterns, and valid ones."""
        if self.delete_from_element_when is not None and self.iterate_on is None:
            yield "delete_from_element_when", "needs iterate_on"
        if not self.with_keys and not self.with_keys_regex:
            yield "", "one of with_keys and with_keys_regex must be set"
        if self.exclude_from_delete and not self.with_keys_regex:
            yield "exclude_from_delete", "applies only to with_keys_regex"
        for text in self.with_keys_regex:
            pattern(text)
        keys(self.with_keys)

    def step(self, compiler: Compiler) -> ProcessorStep:
        """Build the step."""
        doomed, patterns = keys(self.with_keys), [matcher(text) for text in self.with_keys_regex]
        spared = frozenset(self.exclude_from_delete)
        flat = [key.parts[0] for key in doomed]
        if not patterns and all(len(key.parts) == 1 for key in doomed):
            change: Callable[[Event], bool] = partial(_delete_flat, flat)
        else:
            change = partial(_delete, doomed, patterns, spared)
        when = compiler.condition(self.delete_when)
        if self.iterate_on is not None:
            return ElementsStep(
                partial(objects_of, FieldKey.checked(self.iterate_on)),
                lambda event, element, value: change(element),
                when=when,
                element_when=compiler.condition(self.delete_from_element_when),
            )
        return ChangeStep(change, when, core_step=() if patterns else ("delete", doomed))


@dataclass(frozen=True)
class DeleteEntries(DeleteEntry):
    """Deletes entries, by key or by regular expression."""

    entries: list[DeleteEntry] = option([], "Several rules, in order, instead of the other options.")

    def check(self) -> Iterator[tuple[str, str]]:
        """Require rules or keys, not both."""
        if self.entries:
            if self.with_keys or self.with_keys_regex:
                yield "entries", "cannot be combined with with_keys or with_keys_regex"
            return
        yield from super().check()

    def steps(self, compiler: Compiler) -> list[ProcessorStep]:
        """Build one step for each rule."""
        return [entry.step(compiler) for entry in self.entries or [self]]


@dataclass(frozen=True)
class SelectEntries:
    """Keeps only some entries of events."""

    include_keys: list[str] = option([], "The keys to keep; a nested one as `object/name`.")
    include_keys_regex: list[str] = option([], "Regular expressions for whole top-level keys to keep.")
    select_when: str | None = option(None, _WHEN, check=condition)

    def check(self) -> Iterator[tuple[str, str]]:
        """Require keys or patterns, and valid ones."""
        if not self.include_keys and not self.include_keys_regex:
            yield "include_keys", "one of include_keys and include_keys_regex must be set"
        for text in self.include_keys_regex:
            pattern(text)
        keys(self.include_keys)

    def steps(self, compiler: Compiler) -> list[ProcessorStep]:
        """Build the step."""
        patterns = [matcher(text) for text in self.include_keys_regex]
        chosen, when = keys(self.include_keys), compiler.condition(self.select_when)
        return [ChangeStep(partial(_select, chosen, patterns), when, core_step=() if patterns else ("select", chosen))]


def _select(chosen: list[FieldKey], patterns: list[Callable[[str], bool]], event: Event) -> bool:
    entries = [(key, value) for key in chosen if (value := key.get(event)) is not MISSING]
    more = {name: value for name, value in event.items() if any(matches(name) for matches in patterns)}
    event.clear()
    for key, value in entries:
        key.put(event, value)
    for name, value in more.items():
        event.setdefault(name, value)
    return True


def _delete_flat(names: list[str], event: Event) -> bool:
    is_changed = False
    for name in names:
        if name in event:
            del event[name]
            is_changed = True
    return is_changed


def _delete(
    doomed: list[FieldKey], patterns: list[Callable[[str], bool]], spared: frozenset[str], event: Event
) -> bool:
    is_changed = False
    for key in doomed:
        is_changed |= key.pop(event) is not MISSING
    for name in [name for name in event if name not in spared and any(matches(name) for matches in patterns)]:
        del event[name]
        is_changed = True
    return is_changed
