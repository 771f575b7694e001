"""Processors that change the shape of objects and lists."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

from calve.processors.expressions import Compiler, condition
from calve.processors.fields import MISSING, Event, FieldKey, keys, opened, text_of
from calve.processors.step import ChangeStep, ProcessorError, ProcessorStep
from calve.settings.option import option

__all__ = ["Flatten", "ListToMap", "MapToList"]

Path = tuple[str, ...]
"""Keys of objects inside of objects."""

_WHEN = "A condition; the processor changes only events for which it is true."
_TAGS = "Tags of events that cannot be processed; they continue. Without tags they become dead letters."


def _entries(event: Event, source: FieldKey | None) -> Event | None:
    """Return the object at a key (None: the event), opened in its place; None if there is none."""
    if source is None:
        return event
    value = source.get(event)
    if value is MISSING or value is None:
        return None
    entries = opened(value)
    if entries is None:
        return None
    if type(entries) is not dict:
        raise ProcessorError("not an object", source.dotted)
    source.put(event, entries)
    return entries


def _replace(event: Event, source: FieldKey | None, entries: Event, before: Event, target: FieldKey, new: Any) -> None:
    """Put a new value after entries of an object were deleted.

    Raises:
        ProcessorError: That is not possible; the object is again as before.
    """
    if not target.put(event, new):
        entries.clear()
        entries.update(before)
        if source is not None:
            source.put(event, entries)
        raise ProcessorError("a value on the way to this key is not an object", target.dotted)


@dataclass(frozen=True)
class Flatten:
    """Makes the values of nested objects and lists entries of one object, as `a.b[0].c`."""

    source: str = option(doc='The key of the object; `""` is the event itself.')
    target: str = option(doc='The key of the object for the entries; `""` is the event itself.')
    exclude_keys: list[str] = option([], "Keys of the object that stay as they are; a nested one as `object/name`.")
    remove_processed_fields: bool = option(False, "Delete the entries of the object.", aliases=("remove_source_keys",))
    remove_list_indices: bool = option(
        False, "Collect the values of all elements of a list: `a[].b`.", aliases=("remove_list_elements",)
    )
    remove_brackets: bool = option(False, "With `remove_list_indices`: write `a.b` instead of `a[].b`.")
    flatten_separator: str = option(".", "What joins the keys.", minimum=1, maximum=1)
    flatten_when: str | None = option(None, _WHEN, check=condition)
    tags_on_failure: list[str] = option([], _TAGS)

    @property
    def tags(self) -> list[str]:
        """Tags that it may set."""
        return self.tags_on_failure

    def check(self) -> Iterator[tuple[str, str]]:
        """Require what remove_brackets needs."""
        if self.remove_brackets and not self.remove_list_indices:
            yield "remove_brackets", "needs remove_list_indices: true"

    def steps(self, compiler: Compiler) -> list[ProcessorStep]:
        """Build the step."""
        source, target = (FieldKey(text) if text.strip(" /") else None for text in (self.source, self.target))
        return [
            ChangeStep(
                partial(self._flatten, source, target),
                compiler.condition(self.flatten_when),
                tuple(self.tags_on_failure),
            )
        ]

    def _flatten(self, source: FieldKey | None, target: FieldKey | None, event: Event) -> bool:
        entries = _entries(event, source)
        if entries is None:
            if self.tags_on_failure and source is not None:
                raise ProcessorError("there is no such object", source.dotted)
            return False
        flat: Event = {}
        excluded = keys(self.exclude_keys)
        kept: dict[Path, Any] = dict.fromkeys((key.parts for key in excluded), MISSING)
        for name, value in entries.items():
            self._add(flat, kept, name, value, (name,))
        spared = [(key, kept[key.parts]) for key in excluded if kept[key.parts] is not MISSING]
        if target is not None and source is not None and target.parts == source.parts:
            for key, value in spared:
                key.put(flat, value)
        before = entries.copy()
        if self.remove_processed_fields:
            entries.clear()
            for key, value in spared:
                key.put(entries, value)
            if source is not None and not entries:
                source.pop(event)
        if target is None:
            event.update(flat)
        else:
            _replace(event, source, entries, before, target, flat)
        return True

    def _add(self, flat: Event, kept: dict[Path, Any], name: str, value: Any, path: Path) -> None:
        """Add the values inside of a value; those of excluded keys go to `kept`.

        Args:
            flat: The flat entries.
            kept: The excluded values by their paths, which are its keys.
            name: The name of the value.
            value: The value.
            path: The keys of the objects that lead to it; empty: it is inside of a list.

        Raises:
            ProcessorError: Two values would have the same name, so that one would be lost.
        """
        if path in kept:
            kept[path] = value
            return
        opened_value = opened(value)
        if type(opened_value) is dict and opened_value:
            for inner, item in opened_value.items():
                self._add(flat, kept, f"{name}{self.flatten_separator}{inner}", item, path and (*path, inner))
        elif type(opened_value) is list and opened_value:
            for number, item in enumerate(opened_value):
                mark = ("" if self.remove_brackets else "[]") if self.remove_list_indices else f"[{number}]"
                self._add(flat, kept, f"{name}{mark}", item, ())
        elif not path and self.remove_list_indices and type(flat.setdefault(name, [])) is list:
            flat[name].append(value)
        elif name in flat:
            raise ProcessorError("two values would get this key", name)
        else:
            flat[name] = value


@dataclass(frozen=True)
class MapToList:
    """Makes a list of the entries of an object, each with its key and its value."""

    source: str = option(doc='The key of the object; `""` is the event itself.')
    target: str = option(doc="The key of the list.", check=FieldKey.checked)
    key_name: str = option("key", "The key for the keys.")
    value_name: str = option("value", "The key for the values.")
    exclude_keys: list[str] = option([], "Keys of the object that are left out.")
    remove_processed_fields: bool = option(False, "Delete the entries of the object.")
    convert_field_to_list: bool = option(False, "Make a list of key and value of each entry, instead of an object.")
    map_to_list_when: str | None = option(None, _WHEN, check=condition)
    tags_on_failure: list[str] = option([], _TAGS)

    @property
    def tags(self) -> list[str]:
        """Tags that it may set."""
        return self.tags_on_failure

    def steps(self, compiler: Compiler) -> list[ProcessorStep]:
        """Build the step."""
        source = FieldKey(self.source) if self.source.strip(" /") else None
        change = partial(self._list, source, FieldKey(self.target))
        return [ChangeStep(change, compiler.condition(self.map_to_list_when), tuple(self.tags_on_failure))]

    def _list(self, source: FieldKey | None, target: FieldKey, event: Event) -> bool:
        entries = _entries(event, source)
        if entries is None:
            return False
        chosen = [name for name in entries if name not in self.exclude_keys]
        if self.convert_field_to_list:
            listed: list[Any] = [[name, entries[name]] for name in chosen]
        else:
            listed = [{self.key_name: name, self.value_name: entries[name]} for name in chosen]
        before = entries.copy()
        if self.remove_processed_fields:
            for name in chosen:
                del entries[name]
        _replace(event, source, entries, before, target, listed)
        return True


@dataclass(frozen=True)
class ListToMap:
    """Makes an object of a list of objects, by the value that each has for a key."""

    makes_fields: ClassVar[bool] = True

    source: str = option(doc="The key of the list of objects.", check=FieldKey.checked)
    target: str | None = option(None, "The key of the object; without it its entries go to the root.")
    key: str | None = option(None, "The key whose values become keys; required without `use_source_key`.")
    use_source_key: bool = option(False, "Take the keys of the objects themselves.")
    value_key: str | None = option(None, "The key of the values; without it the values are the objects.")
    extract_value: bool = option(False, "With `use_source_key`: take the values alone, instead of objects with them.")
    flatten: bool = option(False, "Take one value for each key, instead of a list of all.")
    flattened_element: Literal["first", "last"] = option("first", "With `flatten`: which value.")
    list_to_map_when: str | None = option(None, _WHEN, check=condition)
    tags_on_failure: list[str] = option([], _TAGS)

    @property
    def tags(self) -> list[str]:
        """Tags that it may set."""
        return self.tags_on_failure

    def check(self) -> Iterator[tuple[str, str]]:
        """Require a key."""
        if self.key is None and not self.use_source_key:
            yield "key", "is required without use_source_key"

    def steps(self, compiler: Compiler) -> list[ProcessorStep]:
        """Build the step."""
        target = FieldKey.checked(self.target) if self.target else None
        change = partial(self._map, FieldKey(self.source), target)
        return [ChangeStep(change, compiler.condition(self.list_to_map_when), tuple(self.tags_on_failure))]

    def _map(self, source: FieldKey, target: FieldKey | None, event: Event) -> bool:
        items = opened(source.get(event))
        if items is MISSING or items is None:
            return False
        if type(items) is not list:
            raise ProcessorError("not a list of objects", source.dotted)
        lists: dict[str, list[Any]] = {}
        for item in items:
            inside = opened(item)
            if type(inside) is not dict:
                raise ProcessorError("not a list of objects", source.dotted)
            for name, value in self._values(inside, item, source):
                lists.setdefault(name, []).append(value)
        at = 0 if self.flattened_element == "first" else -1
        entries = {name: values[at] if self.flatten else values for name, values in lists.items()}
        if target is None:
            event.update(entries)
        elif not target.put(event, entries):
            raise ProcessorError("a value on the way to this key is not an object", target.dotted)
        return True

    def _values(self, inside: Event, item: Any, source: FieldKey) -> Iterator[tuple[str, Any]]:
        if self.use_source_key:
            for name, value in inside.items():
                yield name, value if self.extract_value else {name: value}
            return
        assert self.key is not None
        if self.key not in inside:
            raise ProcessorError(f"an object of the list lacks {self.key}", source.dotted)
        name = text_of(inside[self.key])
        yield name, item if self.value_key is None else inside.get(self.value_key)
