"""The processor that looks values up in tables: `404` becomes `Not Found`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import msgspec

from calve.errors import SettingsError
from calve.processors.convert import Kind, converted
from calve.processors.expressions import Compiler, condition
from calve.processors.fields import MISSING, Event, FieldKey, encode, encoded, opened, text_of
from calve.processors.patterns import has_match, pattern
from calve.processors.step import ChangeStep, ElementsStep, ProcessorError, ProcessorStep
from calve.settings.files import settings_of_file
from calve.settings.option import option
from calve.settings.problems import SettingsErrors

__all__ = ["Translate", "TranslateFile", "TranslateMapping", "TranslateRegex", "TranslateTarget"]

_RANGE = re.compile(r"\s*(-?[0-9]+(?:\.[0-9]+)?)\s*-\s*(-?[0-9]+(?:\.[0-9]+)?)\s*")
_UNSET: Any = MISSING
_REMEMBERED = 10_000
"""The most texts whose range or pattern a task remembers."""


@dataclass(frozen=True)
class TranslateRegex:
    """Values by regular expressions."""

    patterns: dict[str, Any] = option(doc="The value of each expression; the first that matches counts.", minimum=1)
    exact: bool = option(True, "The whole text must match; `false`: a part of it.")

    def check(self) -> Iterator[tuple[str, str]]:
        """Require valid expressions."""
        for text in self.patterns:
            try:
                pattern(text)
            except SettingsError as error:
                yield "patterns", f"{text}: {error}"


_NO_REGEX: TranslateRegex | None = None


@dataclass(frozen=True)
class TranslateTarget:
    """One result of `translate`: where it goes, and the table that it comes from."""

    target: str = option(doc="The key of the result.", check=FieldKey.checked)
    map: dict[str, Any] = option(
        {}, 'The value of each text; a key may be several texts, and ranges of numbers: `"ok,done,200-299"`.'
    )
    regex: TranslateRegex | None = option(_NO_REGEX, "Values by regular expressions, for texts that `map` lacks.")
    default: Any = option(_UNSET, "The value of all other texts; without it they get none.")
    type: Kind = option("string", "The type of the values.")
    translate_when: str | None = option(
        None, "A condition; only events for which it is true are changed.", check=condition
    )

    def check(self) -> Iterator[tuple[str, str]]:
        """Require a table whose values have the type."""
        if not self.map and self.regex is None:
            yield "map", "one of map and regex must be set"
        values = [*self.map.values(), *(self.regex.patterns.values() if self.regex else ())]
        for value in [*values, *([] if self.default is _UNSET else [self.default])]:
            try:
                self.typed(value)
            except ValueError as error:
                yield "type", str(error)

    def typed(self, value: Any) -> Any:
        """Return a value of the table as the type.

        Raises:
            ValueError: It cannot be converted.
        """
        return converted(opened(msgspec.Raw(encode(value))), self.type)

    def lookup(self) -> Callable[[str], Any]:
        """Return a function that returns the result for a text, or `MISSING`."""
        texts: dict[str, Any] = {}
        ranges: list[tuple[Decimal, Decimal, Any]] = []
        for key, value in self.map.items():
            for part in key.split(","):
                if bounds := _RANGE.fullmatch(part):
                    ranges.append((Decimal(bounds[1]), Decimal(bounds[2]), self.typed(value)))
                texts[part.strip()] = self.typed(value)
        rest = _UNSET if self.default is _UNSET else self.typed(self.default)
        other = lru_cache(_REMEMBERED)(lambda text: self._other(text, ranges, rest))
        return lambda text: texts[text] if text in texts else other(text)

    def _other(self, text: str, ranges: list[tuple[Decimal, Decimal, Any]], rest: Any) -> Any:
        if ranges and (number := _number(text)) is not None:
            for low, high, value in ranges:
                if low <= number <= high:
                    return value
        for regex, value in (self.regex.patterns if self.regex else {}).items():
            if has_match([text], f"^(?:{regex})$" if self.regex and self.regex.exact else regex)[0]:
                return self.typed(value)
        return rest


@dataclass(frozen=True)
class TranslateMapping:
    """The tables for one value."""

    source: str | list[str] = option(
        doc="The key of the value; of several keys the result is a list. With `object/name` the result is added to "
        "that object, and `translate_when` reads it; of a list each object is changed."
    )
    targets: list[TranslateTarget] = option(doc="The results.", minimum=1)

    def check(self) -> Iterator[tuple[str, str]]:
        """Require keys, and values of one object if the result is added to it."""
        sources = [FieldKey.checked(text) for text in ([self.source] if isinstance(self.source, str) else self.source)]
        if not sources:
            yield "source", "needs at least one key"
        elif len(sources[0].parts) > 1 and len({source.parts[:-1] for source in sources}) > 1:
            yield "source", "the keys must name values of one object, to which the result is added"

    def steps(self, compiler: Compiler) -> list[ProcessorStep]:
        """Build one step for each result."""
        sources = [FieldKey.checked(text) for text in ([self.source] if isinstance(self.source, str) else self.source)]
        if sources and len(sources[0].parts) > 1:
            return [self._inner_step(compiler, sources, target) for target in self.targets]
        return [
            ChangeStep(
                partial(_translate, sources, isinstance(self.source, list), FieldKey(target.target), target.lookup()),
                compiler.condition(target.translate_when),
                effect=()
                if isinstance(self.source, list) or target.type != "string"
                else ("lookup", FieldKey(target.target), sources),
            )
            for target in self.targets
        ]

    def _inner_step(self, compiler: Compiler, sources: list[FieldKey], target: TranslateTarget) -> ProcessorStep:
        """Build a step that changes the objects that have the value of the first key."""
        parents, leaves = sources[0].parts[:-1], [FieldKey(encoded(source.parts[-1])) for source in sources]
        translate = partial(
            _translate, leaves, isinstance(self.source, list), FieldKey(encoded(target.target)), target.lookup()
        )
        return ElementsStep(
            lambda event: _objects_at(parents, event),
            lambda event, element, value: translate(element),
            element_when=compiler.condition(target.translate_when),
        )


def _objects_at(parents: Sequence[str], value: Any) -> list[Event]:
    """Return the objects at a path, opened in their places; of a list on the way each element is looked at."""
    if type(value) is list:
        value[:] = [_container(item) for item in value]
        return [element for item in value for element in _objects_at(parents, item)]
    if type(value) is not dict:
        return []
    if not parents:
        return [value]
    if parents[0] not in value:
        return []
    value[parents[0]] = inside = _container(value[parents[0]])
    return _objects_at(parents[1:], inside)


def _container(value: Any) -> Any:
    """Return an object or a list one level open, anything else as it is."""
    inside = opened(value)
    return inside if type(inside) is dict or type(inside) is list else value


@dataclass(frozen=True)
class TranslateFile:
    """A file with more tables."""

    name: str = option(doc="The path of a YAML file with `mappings`, on the machine of the driver.", minimum=1)
    aws: dict[str, Any] | None = option(None, "Refused: the file is not read from S3.")

    def check(self) -> Iterator[tuple[str, str]]:
        """Refuse files in a bucket."""
        if self.aws is not None:
            yield "aws", "is not supported: copy the file from the bucket to the driver, and omit this"


_NO_FILE: TranslateFile | None = None


@dataclass(frozen=True)
class Translate:
    """Looks values up in tables, and adds what is found there."""

    mappings: list[TranslateMapping] = option([], "The tables.")
    file: TranslateFile | None = option(_NO_FILE, "A file with more tables; those of `mappings` win.")

    def check(self) -> Iterator[tuple[str, str]]:
        """Require tables, and a file that can be read."""
        if not self.mappings and self.file is None:
            yield "mappings", "one of mappings and file must be set"
        try:
            self.shipped()
        except SettingsErrors as errors:
            yield "file", str(errors)

    def steps(self, compiler: Compiler) -> list[ProcessorStep]:
        """Build the steps of all tables."""
        return [step for mapping in self.shipped().mappings for step in mapping.steps(compiler)]

    def shipped(self) -> Translate:
        """Return these settings with the tables of the file, which tasks may not have.

        Raises:
            SettingsErrors: The file cannot be read, or has something else.
        """
        if self.file is None:
            return self
        loaded = settings_of_file(Path(self.file.name), Translate)
        own = {(str(mapping.source), target.target) for mapping in self.mappings for target in mapping.targets}
        more = [
            replace(mapping, targets=kept)
            for mapping in loaded.mappings
            if (kept := [target for target in mapping.targets if (str(mapping.source), target.target) not in own])
        ]
        return Translate(mappings=[*self.mappings, *more])


def _translate(
    sources: list[FieldKey], is_list: bool, target: FieldKey, lookup: Callable[[str], Any], event: Event
) -> bool:
    values = [opened(source.get(event)) for source in sources]
    texts = [text_of(value) for value in values if value is not MISSING and value is not None]
    results = [result for text in texts if (result := lookup(text)) is not _UNSET]
    if not results:
        return False
    if not target.put(event, results if is_list else results[0]):
        raise ProcessorError("a value on the way to this key is not an object", target.dotted)
    return True


def _number(text: str) -> Decimal | None:
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    return number if number.is_finite() else None
