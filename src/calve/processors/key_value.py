"""The processor that takes a string apart into keys and values: `a=1&b=2`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import msgspec

from calve.processors.expressions import Compiler, condition
from calve.processors.fields import MISSING, Event, FieldKey, encode
from calve.processors.patterns import pattern, replace_all, split_all
from calve.processors.step import ProcessorError, ProcessorStep, TextsChange
from calve.settings.option import option

__all__ = ["KeyValue"]

_TAGS = "Tags of events that cannot be processed; they continue. Without tags they become dead letters."
_ENDS = {"{": "}", "[": "]", "<": ">", "(": ")", '"': '"', "'": "'"}
_TRANSFORMS: dict[str, Callable[[str], str]] = {
    "none": str,
    "lowercase": str.lower,
    "uppercase": str.upper,
    "capitalize": lambda text: text[:1].upper() + text[1:],
}
_NULL: Any = None
Pair = tuple[str, Any]


@dataclass(frozen=True)
class KeyValue:
    """Takes a string apart into keys and values, such as `a=1&b=2`."""

    source: str = option("message", "The key of the string.", check=FieldKey.checked)
    destination: str | None = option("parsed_message", "The key of the object for the pairs; null: the root.")
    field_split_characters: str = option("&", "The text between pairs.", minimum=1)
    field_delimiter_regex: str | None = option(None, "A regular expression for it, instead.", check=pattern)
    value_split_characters: str | None = option("=", "The text between key and value.")
    key_value_delimiter_regex: str | None = option(None, "A regular expression for it, instead.", check=pattern)
    non_match_value: Any = option(_NULL, "The value of a key without one.")
    default_values: dict[str, Any] = option({}, "Values of keys that the string lacks.")
    include_keys: list[str] = option([], "Only these keys are taken; empty: all.")
    exclude_keys: list[str] = option([], "These keys are left out.")
    prefix: str = option("", "The text before all keys.")
    delete_key_regex: str | None = option(None, "A regular expression for what is deleted from keys.", check=pattern)
    delete_value_regex: str | None = option(
        None, "A regular expression for what is deleted from values.", check=pattern
    )
    transform_key: Literal["none", "lowercase", "uppercase", "capitalize"] = option("none", "The case of keys.")
    whitespace: Literal["lenient", "strict"] = option(
        "lenient", "`strict` removes the white space behind keys and before values."
    )
    skip_duplicate_values: bool = option(False, "Of equal pairs take only one.")
    remove_brackets: bool = option(False, "Remove brackets and parentheses from values.")
    value_grouping: bool = option(
        False, "Text in brackets or quotes, and an address up to the next space, belongs to one value."
    )
    drop_keys_with_no_value: bool = option(False, "Leave out keys without a value.")
    overwrite_if_destination_exists: bool = option(True, "Replace existing entries.")
    tags_on_failure: list[str] = option([], _TAGS)
    key_value_when: str | None = option(
        None, "A condition; only events for which it is true are changed.", check=condition
    )

    @property
    def tags(self) -> list[str]:
        """Tags that it may set."""
        return self.tags_on_failure

    def check(self) -> Iterator[tuple[str, str]]:
        """Require a delimiter."""
        if not self.value_split_characters and not self.key_value_delimiter_regex:
            yield "value_split_characters", "one of value_split_characters and key_value_delimiter_regex must be set"
        if self.value_grouping and self.field_delimiter_regex:
            yield "value_grouping", "cannot be combined with field_delimiter_regex"

    def steps(self, compiler: Compiler) -> list[ProcessorStep]:
        """Build the step."""
        target = FieldKey.checked(self.destination) if self.destination else None
        when = compiler.condition(self.key_value_when)
        defaults = {name: msgspec.Raw(encode(value)) for name, value in self.default_values.items()}
        put = partial(self._put, target, defaults)
        return [TextsChange(FieldKey(self.source), self._pairs, put, when, tuple(self.tags_on_failure))]

    def _pairs(self, texts: list[str]) -> list[list[Pair]]:
        """Return the pairs of each text, with what patterns delete already deleted."""
        fields = (
            split_all(texts, self.field_delimiter_regex) if self.field_delimiter_regex else map(self._fields, texts)
        )
        fields_by_text = [[field for field in of_one if field] for of_one in fields]
        flat = self._split([field for of_one in fields_by_text for field in of_one])
        names, values = [name for name, _ in flat], [value for _, value in flat]
        kept = [self._is_taken(name) for name in names]
        if self.delete_key_regex:
            names = replace_all(names, self.delete_key_regex, "")
        if self.delete_value_regex:
            changed = iter(replace_all([v for v in values if isinstance(v, str)], self.delete_value_regex, ""))
            values = [next(changed) if isinstance(value, str) else value for value in values]
        pairs = iter(zip(kept, names, values, strict=True))
        return [
            [(name, value) for is_kept, name, value in (next(pairs) for _ in of_one) if is_kept]
            for of_one in fields_by_text
        ]

    def _is_taken(self, name: str) -> bool:
        return (not self.include_keys or name in self.include_keys) and name not in self.exclude_keys

    def _fields(self, text: str) -> list[str]:
        """Split a text into pairs, without looking into groups."""
        between = self.field_split_characters
        if not self.value_grouping:
            return text.split(between)
        fields, start, at = [], 0, 0
        while at < len(text):
            if text.startswith(between, at):
                fields.append(text[start:at])
                start = at = at + len(between)
            else:
                at = _group_end(text, at)
        return [*fields, text[start:]]

    def _split(self, fields: list[str]) -> list[Pair]:
        if self.key_value_delimiter_regex:
            marked = replace_all(fields, f"^((?s:.*?))(?:{self.key_value_delimiter_regex})", "\\1\0")
            halves = [text.partition("\0") for text in marked]
        else:
            halves = [text.partition(self.value_split_characters or "=") for text in fields]
        none = None if self.non_match_value is None else msgspec.Raw(encode(self.non_match_value))
        return [(name, value if between else none) for name, between, value in halves]

    def _put(
        self, target: FieldKey | None, defaults: Event, source: FieldKey, event: Event, text: str, pairs: list[Pair]
    ) -> bool:
        fields_put: Event = {}
        for name, value in pairs:
            self._add(fields_put, name, value)
        fields_put = {**{name: value for name, value in defaults.items() if name not in fields_put}, **fields_put}
        if target is None:
            for name, value in fields_put.items():
                if self.overwrite_if_destination_exists or name not in event:
                    event[name] = value
            return bool(fields_put)
        if not self.overwrite_if_destination_exists and target.get(event) is not MISSING:
            return False
        if not target.put(event, fields_put):
            raise ProcessorError("a value on the way to this key is not an object", target.dotted)
        return True

    def _add(self, pairs: Event, name: str, value: Any) -> None:
        name = self.prefix + name
        if self.whitespace == "strict":
            name = name.rstrip()
            value = value.lstrip() if isinstance(value, str) else value
        name = _TRANSFORMS[self.transform_key](name)
        if self.remove_brackets and isinstance(value, str):
            value = value.translate(dict.fromkeys(map(ord, "[]()<>")))
        if not name or (value is None and self.drop_keys_with_no_value):
            return
        if name not in pairs:
            pairs[name] = value
            return
        before = pairs[name] if type(pairs[name]) is list else [pairs[name]]
        if not (self.skip_duplicate_values and value in before):
            pairs[name] = [*before, value]


def _group_end(text: str, at: int) -> int:
    """Return the position behind the group that begins at a position, or behind its character."""
    if text.startswith(("http://", "https://"), at):
        end = text.find(" ", at)
        return len(text) if end < 0 else end
    closing = _ENDS.get(text[at])
    end = -1 if closing is None else text.find(closing, at + 1)
    return at + 1 if end < 0 else end + 1
