"""The processor that takes a string apart into keys and values: `a=1&b=2`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any, ClassVar, Literal

import msgspec

from calve.errors import SettingsError
from calve.processors.expressions import Compiler, condition
from calve.processors.fields import MISSING, Event, FieldKey, encode
from calve.processors.key_names import KEY_TRANSFORMS, normalized_key
from calve.processors.key_value_text import UnclosedGroupError, any_of, fields_with_groups, nested
from calve.processors.patterns import matcher, pattern, replace_all, split_all, split_matches
from calve.processors.step import ProcessorError, ProcessorStep, TextsChange
from calve.settings.option import option

__all__ = ["KeyValue"]

_TAGS = "Tags of events that cannot be processed; they continue. Without tags they become dead letters."
_NULL: Any = None
_NO_LITERAL: Literal['"', "'"] | None = None
Pair = tuple[str, Any]


@dataclass(frozen=True)
class KeyValue:
    """Takes a string apart into keys and values, such as `a=1&b=2`."""

    makes_fields: ClassVar[bool] = True

    source: str = option("message", "The key of the string.", check=FieldKey.checked)
    destination: str | None = option("parsed_message", "The key of the object for the pairs; null: the root.")
    field_split_characters: str | None = option(
        "&", r"Each of these characters separates pairs; one after a backslash is a regular expression, as `\t`."
    )
    field_delimiter_regex: str | None = option(None, "A regular expression for it, instead.", check=pattern)
    value_split_characters: str | None = option("=", "Each of these characters separates key and value.")
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
    strict_grouping: bool = option(
        False, "A bracket or quote without its end is an error, instead of going to the end."
    )
    string_literal_character: Literal['"', "'"] | None = option(
        _NO_LITERAL, "A text between two of these is never taken apart; alone it is a key without a value."
    )
    recursive: bool = option(
        False, "A value in `[]`, `()` or `<>` is taken apart into pairs, too, and becomes an object."
    )
    normalize_keys: bool = option(False, "Replace characters of keys that Data Prepper does not allow by `_`.")
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
        """Require a delimiter, and options that go together."""
        if not self.value_split_characters and not self.key_value_delimiter_regex:
            yield "value_split_characters", "one of value_split_characters and key_value_delimiter_regex must be set"
        if not self.field_split_characters and not self.field_delimiter_regex:
            yield "field_split_characters", "one of field_split_characters and field_delimiter_regex must be set"
        if self.value_grouping and self.field_delimiter_regex:
            yield "value_grouping", "cannot be combined with field_delimiter_regex"
        if self.string_literal_character and not self.value_grouping:
            yield "string_literal_character", "needs value_grouping: true"
        if self.recursive and self.remove_brackets:
            yield "remove_brackets", "cannot be combined with recursive, which needs the brackets"
        for name in ("field_split_characters", "value_split_characters"):
            try:
                pattern(any_of(getattr(self, name) or ""))
            except SettingsError as error:
                yield name, str(error)

    def steps(self, compiler: Compiler) -> list[ProcessorStep]:
        """Build the step."""
        target = FieldKey.checked(self.destination) if self.destination else None
        when = compiler.condition(self.key_value_when)
        defaults = {name: msgspec.Raw(encode(value)) for name, value in self.default_values.items()}
        put = partial(self._put, target, defaults)
        return [TextsChange(FieldKey(self.source), self._pairs, put, when, tuple(self.tags_on_failure))]

    @property
    def _between(self) -> str:
        """The regular expression of what separates pairs."""
        return self.field_delimiter_regex or any_of(self.field_split_characters or "")

    @property
    def _behind_key(self) -> str:
        """The regular expression of what separates key and value."""
        return self.key_value_delimiter_regex or any_of(self.value_split_characters or "")

    def _pairs(self, texts: list[str]) -> list[list[Pair] | UnclosedGroupError]:
        """Return the pairs of each text, with what patterns delete already deleted; or why it has none."""
        if self.recursive:
            is_between, is_behind_key = matcher(self._between), matcher(self._behind_key)
            pairs_by_text = [nested(text, is_between, is_behind_key) for text in texts]
            return self._cleaned(pairs_by_text, [None] * len(texts))
        fields_by_text, errors = self._fields(texts)
        pairs = iter(self._split([field for fields in fields_by_text for field in fields]))
        return self._cleaned([[next(pairs) for _ in fields] for fields in fields_by_text], errors)

    def _fields(self, texts: list[str]) -> tuple[list[list[str]], list[UnclosedGroupError | None]]:
        """Split each text into fields that are not empty; of one that cannot be split return why."""
        errors: list[UnclosedGroupError | None] = [None] * len(texts)
        if not self.value_grouping:
            fields_by_text = split_all(texts, self._between)
        else:
            is_between, fields_by_text = matcher(self._between), []
            literal, is_strict = self.string_literal_character, self.strict_grouping
            for number, (text, parts) in enumerate(zip(texts, split_matches(texts, self._behind_key), strict=True)):
                key_ends = list(accumulate(map(len, parts)))[1::2]
                try:
                    fields_by_text.append(fields_with_groups(text, is_between, key_ends, literal, is_strict))
                except UnclosedGroupError as error:
                    fields_by_text.append([])
                    errors[number] = error
        return [[field for field in fields if field] for fields in fields_by_text], errors

    def _cleaned(
        self, pairs_by_text: list[list[Pair]], errors: list[UnclosedGroupError | None]
    ) -> list[list[Pair] | UnclosedGroupError]:
        """Return the pairs whose keys are taken, without what is deleted from keys and values."""
        flat = [pair for pairs in pairs_by_text for pair in pairs]
        names, values = [name for name, _ in flat], [value for _, value in flat]
        is_taken_by_pair = [self._is_taken(name) for name in names]
        if self.delete_key_regex:
            names = replace_all(names, self.delete_key_regex, "")
        if self.delete_value_regex:
            changed = iter(replace_all([v for v in values if isinstance(v, str)], self.delete_value_regex, ""))
            values = [next(changed) if isinstance(value, str) else value for value in values]
        cleaned = iter(zip(is_taken_by_pair, names, values, strict=True))
        return [
            error or [(name, value) for is_taken, name, value in (next(cleaned) for _ in pairs) if is_taken]
            for pairs, error in zip(pairs_by_text, errors, strict=True)
        ]

    def _is_taken(self, name: str) -> bool:
        return (not self.include_keys or name in self.include_keys) and name not in self.exclude_keys

    def _split(self, fields: list[str]) -> list[Pair]:
        """Return the key and value of each field."""
        if len(self.value_split_characters or "") == 1 and not self.key_value_delimiter_regex:
            halves = [text.partition(self.value_split_characters or "=") for text in fields]
        else:
            parts_by_field = split_matches(fields, self._behind_key)
            halves = [(name, "".join(rest[:1]), "".join(rest[1:])) for name, *rest in parts_by_field]
        none = None if self.non_match_value is None else msgspec.Raw(encode(self.non_match_value))
        literal = self.string_literal_character
        return [
            (text, None) if literal and text[0] == literal == text[-1] else (name, value if between else none)
            for text, (name, between, value) in zip(fields, halves, strict=True)
        ]

    def _put(
        self,
        target: FieldKey | None,
        defaults: Event,
        source: FieldKey,
        event: Event,
        text: str,
        pairs: list[Pair] | UnclosedGroupError,
    ) -> bool:
        if isinstance(pairs, UnclosedGroupError):
            raise ProcessorError(str(pairs), source.dotted)
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
        name = KEY_TRANSFORMS[self.transform_key](name)
        if self.remove_brackets and isinstance(value, str):
            value = value.translate(dict.fromkeys(map(ord, "[]()<>")))
        if self.normalize_keys:
            name = normalized_key(name)
        if not name or (value is None and self.drop_keys_with_no_value):
            return
        if name not in pairs:
            pairs[name] = value
            return
        before = pairs[name] if type(pairs[name]) is list else [pairs[name]]
        if not (self.skip_duplicate_values and value in before):
            before.append(value)
            pairs[name] = before
