"""Processors that add, copy and rename the entries of an event."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from calve.event.columns import WORKING_COLUMNS
from calve.expression.scope import TAGS
from calve.processors.expressions import Compiler, condition, format_string, value_expression
from calve.processors.fields import MISSING, Event, FieldKey, encode, encoded, opened, text_of
from calve.processors.key_names import KEY_TRANSFORMS, replace_keys
from calve.processors.patterns import matcher, pattern
from calve.processors.step import (
    AttributeStep,
    ChangeStep,
    ElementsStep,
    ProcessorError,
    ProcessorStep,
    ValueChange,
    objects_of,
)
from calve.settings.option import option

if TYPE_CHECKING:
    from calve.processors.evaluation import Evaluation
    from calve.processors.event_batch import EventBatch

__all__ = [
    "AddEntries",
    "AddEntry",
    "CopyEntry",
    "CopyValues",
    "RenameEntry",
    "RenameKeys",
]

_PART = re.compile(r"\$\{([^}]*)\}")
_PLAIN_KEY = re.compile(r"/?[A-Za-z0-9_.\-@~ ]+(/[A-Za-z0-9_.\-@~ ]+)*")
_PLAIN_POINTER = re.compile(r"/[A-Za-z0-9_.@]+(/[A-Za-z0-9_.@]+)*")
_WHEN = "A condition, such as `/status >= 500`; the processor changes only events for which it is true."
_UNSET: Any = MISSING
_RESERVED = frozenset({*WORKING_COLUMNS, TAGS, ""})
"""Attributes of these names would replace a column of the batch."""


def _checked_key(text: str | None) -> object:
    return None if text is None else FieldKey.checked(text)


@dataclass(frozen=True)
class AddEntry:
    """One entry that `add_entries` adds."""

    key: str | None = option(None, "The key of the entry; it may contain fields, as in `${/name}`.", check=_checked_key)
    metadata_key: str | None = option(
        None, "The name of a metadata attribute, instead of `key`; `getMetadata` reads it, also in routes and names."
    )
    value: Any = option(_UNSET, "The value: text, a number, a boolean, null, a list or a map.")
    format: str | None = option(None, "The value as text with fields, such as `${first}-${last}`.", check=format_string)
    value_expression: str | None = option(
        None, "The value as an expression, such as `/count + 1` or `length(/message)`.", check=value_expression
    )
    add_when: str | None = option(None, _WHEN, check=condition)
    overwrite_if_key_exists: bool = option(False, "Replace an existing entry.")
    append_if_key_exists: bool = option(False, "Append the value to an existing entry, which becomes a list.")
    iterate_on: str | None = option(None, "The key of a list of objects; each of them gets the entry, not the event.")
    flatten_key: bool = option(True, "With `iterate_on`: a slash in `key` is part of a name; `false`: it leads inside.")
    disable_root_keys: bool = option(
        True, "With `iterate_on`: `format` and `value_expression` read the object of the list; `false`: the event."
    )
    add_to_element_when: str | None = option(None, "With `iterate_on`: one more condition.", check=condition)
    evaluate_when_on_element: bool = option(
        False, "Whether `add_to_element_when` reads the object of the list, and decides about it; else the event."
    )

    def check(self) -> Iterator[tuple[str, str]]:
        """Require exactly one kind of value."""
        kinds = (self.value is not _UNSET, self.format is not None, self.value_expression is not None)
        if sum(kinds) != 1:
            yield "key", "exactly one of value, format and value_expression must be set"
        if (self.key is None) == (self.metadata_key is None):
            yield "key", "exactly one of key and metadata_key must be set"
        if self.metadata_key is not None and self.metadata_key.casefold() in _RESERVED:
            yield "metadata_key", f"{self.metadata_key} is a name that Calve uses itself; choose another one"
        if self.metadata_key is not None and (self.append_if_key_exists or self.iterate_on is not None):
            yield "metadata_key", "cannot be combined with append_if_key_exists and iterate_on"
        if self.iterate_on is None:
            for name in ("add_to_element_when", "evaluate_when_on_element"):
                if getattr(self, name):
                    yield name, "needs iterate_on"
        if self.overwrite_if_key_exists and self.append_if_key_exists:
            yield "append_if_key_exists", "overwrite_if_key_exists and append_if_key_exists cannot be combined"

    def step(self, compiler: Compiler) -> ProcessorStep:
        """Build the step."""
        if self.key is None:
            return self._metadata_step(compiler)
        if self.iterate_on is not None:
            return self._elements_step(compiler, FieldKey.checked(self.iterate_on), self._target(self.key))
        when, target = compiler.condition(self.add_when), self._target(self.key)
        key, overwrites = FieldKey(self.key), self.overwrite_if_key_exists
        is_for_core = "${" not in self.key and not self.append_if_key_exists

        def added(value: Callable[[Event], Any], *core_step: Any) -> ChangeStep:
            return ChangeStep(
                lambda event: self._add(event, target(event), value(event)), when, (), core_step if is_for_core else ()
            )

        if self.value is not _UNSET:
            constant = msgspec.Raw(encode(self.value))
            if is_for_core and key.flat:
                core_step = ("put", key, overwrites, bytes(constant).decode())
                return ChangeStep(partial(_add_flat, key.flat, constant, overwrites), when, core_step=core_step)
            return added(lambda event: constant)
        if self.format is not None:
            if (parts := _parts(self.format)) is not None:
                marked = [(type(part) is FieldKey, part) for part in parts]
                return added(partial(_filled, parts), "format", key, overwrites, marked)
            return ValueChange(
                compiler.format(self.format), lambda event, value: self._add(event, target(event), value), when
            )
        assert self.value_expression is not None
        if _PLAIN_POINTER.fullmatch(self.value_expression.strip()):
            source = FieldKey(self.value_expression.strip())
            return added(lambda event: _or_null(source.get(event)), "point", source, key, overwrites)
        return ValueChange(compiler.value(self.value_expression), partial(self._add_computed, target), when)

    def _elements_step(
        self, compiler: Compiler, elements: FieldKey, target: Callable[[Event], FieldKey]
    ) -> ElementsStep:
        when, element_when = self.add_when, None
        if self.add_to_element_when is not None and self.evaluate_when_on_element:
            element_when = compiler.condition(self.add_to_element_when)
        elif self.add_to_element_when is not None:
            when = " and ".join(f"({text})" for text in (when, self.add_to_element_when) if text)
        constant = None if self.value is _UNSET else msgspec.Raw(encode(self.value))

        def change(event: Event, element: Event, value: Any) -> bool:
            key = target(event)
            if self.flatten_key:
                key = FieldKey(encoded("/".join(key.parts)))
            if constant is None and self.value_expression is not None:
                return self._add_computed(lambda _: key, element, value)
            return self._add(element, key, value if constant is None else constant)

        value = None
        if constant is None:
            value = compiler.format(self.format) if self.format else compiler.value(self.value_expression or "")
        return ElementsStep(
            partial(objects_of, elements),
            change,
            value,
            compiler.condition(when),
            element_when,
            not self.disable_root_keys,
        )

    def _metadata_step(self, compiler: Compiler) -> AttributeStep:
        when, name = compiler.condition(self.add_when), self.metadata_key or ""
        if self.value is not _UNSET:
            text = text_of(msgspec.Raw(encode(self.value)))
            return AttributeStep(name, lambda batch, rows: [text] * len(rows), self.overwrite_if_key_exists, when)
        if self.format is not None:
            texts = compiler.format(self.format)
            return AttributeStep(name, partial(_evaluated, texts), self.overwrite_if_key_exists, when)
        values = compiler.value(self.value_expression or "")
        return AttributeStep(name, partial(_evaluated_json, values), self.overwrite_if_key_exists, when)

    def _target(self, key_text: str) -> Callable[[Event], FieldKey]:
        if "${" not in key_text:
            key = FieldKey(key_text)
            return lambda event: key
        parts = _parts(key_text)
        if parts is None:
            raise ProcessorError("a key may contain fields, such as ${/name}, but no other expressions")
        return lambda event: _dynamic_key(_filled(parts, event))

    def _add_computed(self, target: Callable[[Event], FieldKey], event: Event, value: str | None) -> bool:
        if value is None:
            raise ProcessorError(f"{self.value_expression} cannot be evaluated", self.key or "")
        return self._add(event, target(event), msgspec.Raw(value.encode()))

    def _add(self, event: Event, key: FieldKey, value: Any) -> bool:
        if not self.overwrite_if_key_exists and (before := key.get(event)) is not MISSING:
            if not self.append_if_key_exists:
                return False
            present = opened(before)
            value = [*present, value] if type(present) is list else [before, value]
        if not key.put(event, value):
            raise ProcessorError("a value on the way to this key is not an object", key.dotted)
        return True


@dataclass(frozen=True)
class AddEntries:
    """Adds entries to events."""

    entries: list[AddEntry] = option(doc="The entries, in order.", minimum=1)

    @property
    def attributes(self) -> list[str]:
        """Metadata attributes that it may set."""
        return [entry.metadata_key for entry in self.entries if entry.metadata_key is not None]

    def steps(self, compiler: Compiler) -> list[ProcessorStep]:
        """Build one step for each entry."""
        return [entry.step(compiler) for entry in self.entries]


@dataclass(frozen=True)
class CopyEntry:
    """One entry that `copy_values` copies."""

    from_key: str = option(doc="The key of the entry to copy.", check=FieldKey.checked)
    to_key: str = option(doc="The key of the new entry.", check=FieldKey.checked)
    overwrite_if_to_key_exists: bool = option(False, "Replace an existing entry.")
    copy_when: str | None = option(None, _WHEN, check=condition)

    def step(self, compiler: Compiler) -> ProcessorStep:
        """Build the step."""
        source, to, overwrites = FieldKey(self.from_key), FieldKey(self.to_key), self.overwrite_if_to_key_exists
        core_step = ("copy", source, to, overwrites) if source.parts != to.parts else ()
        return ChangeStep(
            partial(_move, source, to, overwrites, False), compiler.condition(self.copy_when), core_step=core_step
        )


@dataclass(frozen=True)
class CopyValues:
    """Copies values to other keys, or from the objects of one list to those of another."""

    entries: list[CopyEntry] = option(doc="The entries, in order.", minimum=1)
    from_list: str | None = option(None, "The key of a list of objects whose entries are copied.")
    to_list: str | None = option(None, "The key of the new list of objects.")
    overwrite_if_to_list_exists: bool = option(False, "Replace an existing list.")

    def check(self) -> Iterator[tuple[str, str]]:
        """Require both lists or none."""
        if (self.from_list is None) != (self.to_list is None):
            yield "from_list", "from_list and to_list must be set together"
        if self.from_list is not None and any(entry.copy_when for entry in self.entries):
            yield "entries", "copy_when is not available with from_list"

    def steps(self, compiler: Compiler) -> list[ProcessorStep]:
        """Build one step for each entry, or one for the lists."""
        if self.from_list is None or self.to_list is None:
            return [entry.step(compiler) for entry in self.entries]
        return [ChangeStep(partial(self._copy_list, FieldKey.checked(self.from_list), FieldKey.checked(self.to_list)))]

    def _copy_list(self, source: FieldKey, target: FieldKey, event: Event) -> bool:
        items = opened(source.get(event))
        if items is MISSING or (target.get(event) is not MISSING and not self.overwrite_if_to_list_exists):
            return False
        if type(items) is not list:
            raise ProcessorError("not a list of objects", source.dotted)
        copied: list[Event] = []
        for item in map(opened, items):
            if type(item) is not dict:
                raise ProcessorError("not a list of objects", source.dotted)
            new: Event = {}
            for entry in self.entries:
                value, key = FieldKey(entry.from_key).get(item), FieldKey(entry.to_key)
                if value is not MISSING and (entry.overwrite_if_to_key_exists or key.get(new) is MISSING):
                    key.put(new, value)
            copied.append(new)
        return target.put(event, copied)


@dataclass(frozen=True)
class RenameEntry:
    """One entry that `rename_keys` renames."""

    from_key: str | None = option(None, "The key of the entry.")
    from_key_regex: str | None = option(
        None, "A regular expression for the whole key of a top-level entry, instead of `from_key`.", check=pattern
    )
    to_key: str = option(doc="The new key.", check=FieldKey.checked)
    overwrite_if_to_key_exists: bool = option(False, "Replace an existing entry.")
    rename_when: str | None = option(None, _WHEN, check=condition)

    def check(self) -> Iterator[tuple[str, str]]:
        """Require one of the two kinds of keys."""
        if (self.from_key is None) == (self.from_key_regex is None):
            yield "from_key", "exactly one of from_key and from_key_regex must be set"

    def step(self, compiler: Compiler) -> ProcessorStep:
        """Build the step."""
        when, to = compiler.condition(self.rename_when), FieldKey(self.to_key)
        if self.from_key is not None:
            source = FieldKey.checked(self.from_key)
            if source.flat and to.flat and source.flat != to.flat:
                core_step = ("rename", source, to, self.overwrite_if_to_key_exists)
                return ChangeStep(
                    partial(_move_flat, source.flat, to.flat, self.overwrite_if_to_key_exists),
                    when,
                    core_step=core_step,
                )
            return ChangeStep(partial(_move, source, to, self.overwrite_if_to_key_exists, True), when)
        return ChangeStep(partial(self._rename_matches, matcher(self.from_key_regex or ""), to), when)

    def _rename_matches(self, matches: Callable[[str], bool], to: FieldKey, event: Event) -> bool:
        if to.get(event) is not MISSING and not self.overwrite_if_to_key_exists:
            return False
        is_changed = False
        for name in [name for name in event if matches(name)]:
            if to.parts != (name,):
                if not to.put(event, event.pop(name)):
                    raise ProcessorError("a value on the way to this key is not an object", to.dotted)
                is_changed = True
            if not self.overwrite_if_to_key_exists:
                break
        return is_changed


@dataclass(frozen=True)
class RenameKeys:
    """Renames keys; each entry sees the keys that the ones before it made."""

    entries: list[RenameEntry] = option([], "The entries, in order.")
    transform_key: Literal["none", "lowercase", "uppercase", "capitalize"] = option(
        "none", "Instead of `entries`: changes all keys, also those of objects inside of objects."
    )

    def check(self) -> Iterator[tuple[str, str]]:
        """Require either entries or a change of all keys."""
        if bool(self.entries) == (self.transform_key != "none"):
            yield "entries", "exactly one of entries and transform_key must be set"

    def steps(self, compiler: Compiler) -> list[ProcessorStep]:
        """Build one step for each entry, or one for all keys."""
        if self.transform_key != "none":
            return [ChangeStep(partial(replace_keys, KEY_TRANSFORMS[self.transform_key]))]
        return [entry.step(compiler) for entry in self.entries]


def _add_flat(name: str, constant: Any, overwrites: bool, event: Event) -> bool:
    if name in event and not overwrites:
        return False
    event[name] = constant
    return True


def _move_flat(source: str, target: str, overwrites: bool, event: Event) -> bool:
    if source not in event or (target in event and not overwrites):
        return False
    event[target] = event.pop(source)
    return True


def _move(source: FieldKey, target: FieldKey, overwrites: bool, is_rename: bool, event: Event) -> bool:
    value = source.get(event)
    if value is MISSING or source.parts == target.parts:
        return False
    if not overwrites and target.get(event) is not MISSING:
        return False
    if is_rename:
        source.pop(event)
    if not target.put(event, value):
        raise ProcessorError("a value on the way to this key is not an object", target.dotted)
    return True


def _parts(text: str) -> list[str | FieldKey] | None:
    """Return the parts of a text with plain keys in `${…}`; None if it has other expressions."""
    if not all(_PLAIN_KEY.fullmatch(part) for part in _PART.findall(text)):
        return None
    return [
        FieldKey(part) if number % 2 else part for number, part in enumerate(_PART.split(text)) if number % 2 or part
    ]


def _filled(parts: list[str | FieldKey], event: Event) -> str:
    return "".join([part if isinstance(part, str) else text_of(part.get(event)) for part in parts])


def _dynamic_key(text: str) -> FieldKey:
    if not text.strip(" /"):
        raise ProcessorError("the fields of the key are missing or empty")
    return FieldKey(text)


def _or_null(value: Any) -> Any:
    return None if value is MISSING else value


def _evaluated(texts: Evaluation, batch: EventBatch, rows: Sequence[int]) -> list[str | None]:
    return batch.evaluate(texts, rows)


def _evaluated_json(values: Evaluation, batch: EventBatch, rows: Sequence[int]) -> list[str | None]:
    texts = batch.evaluate(values, rows)
    return [None if text in (None, "null") else text_of(msgspec.Raw(text.encode())) for text in texts]
