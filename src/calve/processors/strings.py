"""Processors that change strings; other values stay as they are."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from calve.processors.expressions import Compiler, condition
from calve.processors.fields import MISSING, Event, FieldKey, keys, opened
from calve.processors.patterns import pattern, replace_all, replacement, split_all
from calve.processors.step import ChangeStep, ProcessorStep, TextsChange
from calve.settings.option import option

__all__ = [
    "LowercaseString",
    "ReplaceEntry",
    "ReplaceString",
    "SplitEntry",
    "SplitString",
    "StringConverter",
    "SubstituteEntry",
    "SubstituteString",
    "TrimString",
    "Truncate",
    "TruncateEntry",
    "UppercaseString",
    "java_split",
]

_WHEN = "A condition, such as `/status >= 500`; the processor changes only events for which it is true."
_MEMO = 4096
"""The most results that a change of strings remembers."""
_SPACES = "".join(map(chr, range(33)))
"""What Java's `trim` removes."""


@dataclass(frozen=True)
class _WithKeys:
    with_keys: list[str] = option(doc="The keys of the strings.", minimum=1)

    def check(self) -> Iterator[tuple[str, str]]:
        """Require valid keys."""
        keys(self.with_keys)
        return iter(())

    def _steps(self, change: Callable[[str], str], core_step: str) -> list[ProcessorStep]:
        return [ChangeStep(_string_change(key, change), core_step=(core_step, [key])) for key in keys(self.with_keys)]


@dataclass(frozen=True)
class LowercaseString(_WithKeys):
    """Converts strings to lower case."""

    def steps(self, compiler: Compiler) -> list[ProcessorStep]:
        """Build one step for each key."""
        return self._steps(str.lower, "lower")


@dataclass(frozen=True)
class UppercaseString(_WithKeys):
    """Converts strings to upper case."""

    def steps(self, compiler: Compiler) -> list[ProcessorStep]:
        """Build one step for each key."""
        return self._steps(str.upper, "upper")


@dataclass(frozen=True)
class TrimString(_WithKeys):
    """Removes white space at both ends of strings."""

    def steps(self, compiler: Compiler) -> list[ProcessorStep]:
        """Build one step for each key."""
        return self._steps(lambda text: text.strip(_SPACES), "trim")


@dataclass(frozen=True)
class StringConverter:
    """Converts all top-level strings of an event to one case."""

    upper_case: bool = option(True, "Upper case; `false` is lower case.")

    def steps(self, compiler: Compiler) -> list[ProcessorStep]:
        """Build the step."""
        return [ChangeStep(partial(_change_all, str.upper if self.upper_case else str.lower))]


@dataclass(frozen=True)
class ReplaceEntry:
    """One replacement of `replace_string`."""

    source: str = option(doc="The key of the string.", check=FieldKey.checked)
    from_: str = option(doc="A text.", minimum=1)
    to: str = option(doc="What replaces it wherever it stands.")
    replace_when: str | None = option(None, _WHEN, check=condition)

    def step(self, compiler: Compiler) -> ProcessorStep:
        """Build the step."""
        change = _string_change(FieldKey(self.source), lambda text: text.replace(self.from_, self.to))
        return ChangeStep(change, compiler.condition(self.replace_when), effect=("text", [FieldKey(self.source)]))


@dataclass(frozen=True)
class ReplaceString:
    """Replaces a text by another one in strings."""

    entries: list[ReplaceEntry] = option(doc="The replacements, in order.", minimum=1)

    def steps(self, compiler: Compiler) -> list[ProcessorStep]:
        """Build one step for each replacement."""
        return [entry.step(compiler) for entry in self.entries]


@dataclass(frozen=True)
class SubstituteEntry:
    """One replacement of `substitute_string`."""

    source: str = option(doc="The key of the string.", check=FieldKey.checked)
    from_: str = option(doc="A regular expression.", check=pattern)
    to: str = option(doc="What replaces each match: text, with `$1` for the first group.")
    substitute_when: str | None = option(None, _WHEN, check=condition)

    def check(self) -> Iterator[tuple[str, str]]:
        """Require groups that the pattern has."""
        replacement(self.to, self.from_)
        return iter(())

    def step(self, compiler: Compiler) -> ProcessorStep:
        """Build the step."""
        compute = partial(replace_all, regex=self.from_, with_=replacement(self.to, self.from_))
        source, when = FieldKey(self.source), compiler.condition(self.substitute_when)
        return TextsChange(source, compute, _put_changed, when, effect=("text", [source]))


@dataclass(frozen=True)
class SubstituteString:
    """Replaces every match of a regular expression in strings."""

    entries: list[SubstituteEntry] = option(doc="The replacements, in order.", minimum=1)

    def steps(self, compiler: Compiler) -> list[ProcessorStep]:
        """Build one step for each entry."""
        return [entry.step(compiler) for entry in self.entries]


@dataclass(frozen=True)
class SplitEntry:
    """One string that `split_string` splits."""

    source: str = option(doc="The key of the string.", check=FieldKey.checked)
    delimiter: str | None = option(None, "What separates the parts.", minimum=1)
    delimiter_regex: str | None = option(None, "A regular expression for it, instead of `delimiter`.", check=pattern)
    split_when: str | None = option(None, _WHEN, check=condition)

    def check(self) -> Iterator[tuple[str, str]]:
        """Require one delimiter."""
        if bool(self.delimiter) == bool(self.delimiter_regex):
            yield "delimiter", "exactly one of delimiter and delimiter_regex must be set"

    def step(self, compiler: Compiler) -> ProcessorStep:
        """Build the step."""
        compute = partial(java_split, delimiter=self.delimiter, regex=self.delimiter_regex)
        return TextsChange(FieldKey(self.source), compute, _put_changed, compiler.condition(self.split_when))


@dataclass(frozen=True)
class SplitString:
    """Splits strings into lists; empty parts at the end are left out."""

    entries: list[SplitEntry] = option(doc="The strings, in order.", minimum=1)

    def steps(self, compiler: Compiler) -> list[ProcessorStep]:
        """Build one step for each entry."""
        return [entry.step(compiler) for entry in self.entries]


@dataclass(frozen=True)
class TruncateEntry:
    """Some strings that `truncate` shortens."""

    source_keys: list[str] = option([], "The keys of the strings; without keys all top-level strings.")
    start_at: int | None = option(None, "The first character that stays, from 0.", minimum=0)
    length: int | None = option(None, "How many characters stay.", minimum=0)
    recursive: bool = option(False, "Also shorten the strings in objects, at any depth.")
    truncate_when: str | None = option(None, _WHEN, check=condition)

    def check(self) -> Iterator[tuple[str, str]]:
        """Require a limit."""
        if self.start_at is None and self.length is None:
            yield "", "at least one of start_at and length must be set"
        keys(self.source_keys)

    def step(self, compiler: Compiler) -> ProcessorStep:
        """Build the step."""
        chosen, when = keys(self.source_keys), compiler.condition(self.truncate_when)
        core_step = ("truncate", chosen, self.start_at or 0, self.length, self.recursive) if chosen else ()
        return ChangeStep(partial(self._truncate, chosen), when, core_step=core_step)

    def _truncate(self, chosen: list[FieldKey], event: Event) -> bool:
        is_changed = False
        for key in chosen or [FieldKey(name.replace("~", "~0").replace("/", "~1")) for name in event]:
            before = key.get(event)
            if before is not MISSING and (after := self._shortened(before)) is not before:
                is_changed |= key.put(event, after)
        return is_changed

    def _shortened(self, before: Any) -> Any:
        """Return a shortened value, or the same object if there is nothing to shorten."""
        value, start = opened(before), self.start_at or 0
        if type(value) is str:
            after = value[start:] if self.length is None else value[start : start + self.length]
            return before if after == value else after
        if type(value) is list:
            items = [self._shortened(item) if type(opened(item)) is str else item for item in value]
            return before if all(new is old for new, old in zip(items, value, strict=True)) else items
        if type(value) is dict and self.recursive:
            entries = {name: self._shortened(item) for name, item in value.items()}
            return before if all(entries[name] is value[name] for name in value) else entries
        return before


@dataclass(frozen=True)
class Truncate:
    """Shortens strings, also those in lists. Lengths count characters (Data Prepper: UTF-16 units)."""

    entries: list[TruncateEntry] = option(doc="The strings, in order.", minimum=1)

    def steps(self, compiler: Compiler) -> list[ProcessorStep]:
        """Build one step for each entry."""
        return [entry.step(compiler) for entry in self.entries]


def java_split(texts: list[str], delimiter: str | None, regex: str | None) -> list[list[str]]:
    """Split texts as Java does: without the empty parts at the end; only delimiters are no parts."""
    split_texts = split_all(texts, regex) if regex else [text.split(delimiter) for text in texts]
    for parts in split_texts:
        has_match = len(parts) > 1
        while has_match and parts and not parts[-1]:
            parts.pop()
    return split_texts


def _put_changed(key: FieldKey, event: Event, before: str, after: Any) -> bool:
    return before != after and key.put(event, after)


def _string_change(key: FieldKey, change: Callable[[str], str]) -> Callable[[Event], bool]:
    """Return a function that changes the string of an event; for a top-level one it remembers results by JSON text."""
    name, changed_texts = key.flat, dict[bytes, Any]()
    if name is None:
        return partial(_change_string, key, change)

    def run(event: Event) -> bool:
        before = event.get(name)
        if type(before) is not msgspec.Raw:
            return type(before) is str and _change_string(key, change, event)
        text = bytes(before)
        if text not in changed_texts:
            if len(changed_texts) >= _MEMO:
                changed_texts.clear()
            value = opened(before)
            changed_texts[text] = change(value) if type(value) is str and change(value) != value else None
        if (after := changed_texts[text]) is None:
            return False
        event[name] = after
        return True

    return run


def _change_string(key: FieldKey, change: Callable[[str], str], event: Event) -> bool:
    before = key.get(event)
    text = opened(before) if type(before) is msgspec.Raw and bytes(before)[:1] == b'"' else before
    if type(text) is not str:
        return False
    after = change(text)
    return after != text and key.put(event, after)


def _change_all(change: Callable[[str], str], event: Event) -> bool:
    is_changed = False
    for name in event:
        is_changed |= _change_string(FieldKey(re.sub("/", "~1", name.replace("~", "~0"))), change, event)
    return is_changed
