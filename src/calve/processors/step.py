"""What a processor is at run time: steps that change the events of a batch, some of them on a condition."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from calve.processors.fields import MISSING, Event, FieldKey, opened

if TYPE_CHECKING:
    from calve.processors.evaluation import Evaluation
    from calve.processors.event_batch import EventBatch
    from calve.processors.expressions import Compiler

__all__ = [
    "AttributeStep",
    "ChangeStep",
    "Drop",
    "ElementsStep",
    "ProcessorError",
    "ProcessorSettings",
    "ProcessorStep",
    "SplitStep",
    "TextsChange",
    "ValueChange",
    "change_each",
    "objects_of",
]


class ProcessorError(ValueError):
    """A processor cannot process an event.

    Args:
        reason: A short sentence without whole values.
        field: The field, as a dotted path.
    """

    def __init__(self, reason: str, field: str = "") -> None:
        super().__init__(reason)
        self.field = field


def change_each(event: Event, key: FieldKey, change: Callable[[Event], bool]) -> bool:
    """Change each object of a list in its place; return whether any was changed.

    Raises:
        ProcessorError: The value is no list of objects.
    """
    return any([change(item) for item in objects_of(key, event)])  # noqa: C419 - each of them, not up to the first


def objects_of(key: FieldKey, event: Event) -> list[Event]:
    """Return the objects of a list, opened in their place; none, if there is no list.

    Raises:
        ProcessorError: The value is no list of objects.
    """
    value = opened(key.get(event))
    if value is MISSING or value is None:
        return []
    items = [opened(item) for item in value] if type(value) is list else [value]
    if not all(type(item) is dict for item in items) or type(value) is not list:
        raise ProcessorError("not a list of objects", key.dotted)
    key.put(event, items)
    return items


class ProcessorStep(Protocol):
    """One action of a processor on the events of a batch; runs in tasks."""

    def run(self, batch: EventBatch, rows: Sequence[int]) -> None:
        """Process some of the events of a batch, given by their positions."""


class ProcessorSettings(Protocol):
    """The settings of a processor."""

    def steps(self, compiler: Compiler) -> Iterable[ProcessorStep]:
        """Build the steps; on the driver this also compiles the expressions, which the tasks then use.

        Raises:
            SettingsError: A key, pattern or expression is invalid.
        """


@dataclass(frozen=True)
class ChangeStep:
    """Changes each event alone.

    Attributes:
        change: Changes an event in place, and returns whether it did; raises `ProcessorError` if it cannot.
        when: Only events for which this is true; None: all.
        tags: Tags of events that cannot be changed, which then continue; empty: they become dead letters.
        core_step: The same for the compiled core (`processors.program`); empty: it does not know this.
        effect: What it does to columns (`processors.effects`), where `core_step` does not tell it; empty: unknown.
    """

    change: Callable[[Event], bool]
    when: Evaluation | None = None
    tags: Sequence[str] = ()
    core_step: tuple[Any, ...] = ()
    effect: tuple[Any, ...] = ()

    def run(self, batch: EventBatch, rows: Sequence[int]) -> None:
        """Change the events."""
        rows = batch.selected(self.when, rows)
        change, events, touched = self.change, batch.opened(rows), batch.touched
        for row in rows:
            try:
                if change(events[row]):  # type: ignore[arg-type]
                    touched[row] = 1
            except ProcessorError as error:
                batch.fail(row, str(error), error.field, self.tags)
            except Exception as error:  # a bug must not lose other events
                batch.fail(row, f"{type(error).__name__}: {error}", "", self.tags)


@dataclass(frozen=True)
class ValueChange:
    """Changes each event with the value of an expression.

    Attributes:
        value: The expression.
        change: As in `ChangeStep`, with the value.
        when: As in `ChangeStep`.
    """

    value: Evaluation
    change: Callable[[Event, Any], bool]
    when: Evaluation | None = None

    def run(self, batch: EventBatch, rows: Sequence[int]) -> None:
        """Change the events."""
        rows = batch.selected(self.when, rows)
        values = dict(zip(rows, batch.evaluate(self.value, rows), strict=True))
        events = batch.opened(rows)
        for row in rows:
            try:
                if self.change(events[row], values[row]):  # type: ignore[arg-type]
                    batch.touched[row] = 1
            except ProcessorError as error:
                batch.fail(row, str(error), error.field)
            except Exception as error:  # a bug must not lose other events
                batch.fail(row, f"{type(error).__name__}: {error}", "")


@dataclass(frozen=True)
class ElementsStep:
    """Changes objects of a list in each event.

    Attributes:
        elements: Returns the objects of an event, opened in their places; raises `ProcessorError` as in `objects_of`.
        change: Changes an object in its place, given its event, the object, and the value of the expression; as in
            `ChangeStep`.
        value: The expression over the object; None: there is none.
        when: As in `ChangeStep`.
        element_when: Only objects for which this is true; None: all.
        reads_event: Whether the expression is evaluated over the event instead of the object.
    """

    elements: Callable[[Event], list[Event]]
    change: Callable[[Event, Event, Any], bool]
    value: Evaluation | None = None
    when: Evaluation | None = None
    element_when: Evaluation | None = None
    reads_event: bool = False

    def run(self, batch: EventBatch, rows: Sequence[int]) -> None:
        """Change the objects."""
        rows = batch.selected(self.when, rows)
        events, elements = batch.opened(rows), list[tuple[int, Event]]()
        for row in rows:
            try:
                elements += [(row, element) for element in self.elements(events[row])]  # type: ignore[arg-type]
            except ProcessorError as error:
                batch.fail(row, str(error), error.field)
        if self.element_when is not None:
            is_chosen = batch.evaluate_elements(self.element_when, elements)
            elements = [element for element, is_true in zip(elements, is_chosen, strict=True) if is_true]
        failed: set[int] = set()
        for (row, element), value in zip(elements, self._values(batch, elements), strict=True):
            try:
                if row not in failed and self.change(events[row], element, value):  # type: ignore[arg-type]
                    batch.touched[row] = 1
            except Exception as error:  # a bug must not lose other events
                failed.add(row)
                is_known = isinstance(error, ProcessorError)
                reason = str(error) if is_known else f"{type(error).__name__}: {error}"
                batch.fail(row, reason, getattr(error, "field", "") if is_known else "")

    def _values(self, batch: EventBatch, elements: Sequence[tuple[int, Event]]) -> Sequence[Any]:
        if self.value is None:
            return [None] * len(elements)
        if not self.reads_event:
            return batch.evaluate_elements(self.value, elements)
        rows = list(dict.fromkeys(row for row, _ in elements))
        value_by_row = dict(zip(rows, batch.evaluate(self.value, rows), strict=True))
        return [value_by_row[row] for row, _ in elements]


@dataclass(frozen=True)
class TextsChange:
    """Changes each event by a string of it; the strings are computed together. Events without the string stay.

    Attributes:
        source: The key of the string.
        compute: Returns one result for each string.
        change: Changes an event, given the key, the string and the result; as in `ChangeStep`.
        when: As in `ChangeStep`.
        tags: As in `ChangeStep`.
        effect: What it does to columns (`processors.effects`); empty: unknown.
    """

    source: FieldKey
    compute: Callable[[list[str]], Sequence[Any]]
    change: Callable[[FieldKey, Event, str, Any], bool]
    when: Evaluation | None = None
    tags: Sequence[str] = ()
    effect: tuple[Any, ...] = ()

    def run(self, batch: EventBatch, rows: Sequence[int]) -> None:
        """Change the events."""
        rows = batch.selected(self.when, rows)
        events, get = batch.opened(rows), self.source.get
        texts = {row: text for row in rows if type(text := opened(get(events[row]))) is str}  # type: ignore[arg-type]
        for (row, text), result in zip(texts.items(), self.compute(list(texts.values())), strict=True):
            try:
                if self.change(self.source, events[row], text, result):  # type: ignore[arg-type]
                    batch.touched[row] = 1
            except ProcessorError as error:
                batch.fail(row, str(error), error.field, self.tags)
            except Exception as error:  # a bug must not lose other events
                batch.fail(row, f"{type(error).__name__}: {error}", "", self.tags)


@dataclass(frozen=True)
class AttributeStep:
    """Sets a metadata attribute of each event.

    Attributes:
        name: The attribute.
        texts: Returns its text for each of some rows of a batch; None for a row that gets none.
        overwrites: Whether it replaces what an earlier step has set.
        when: As in `ChangeStep`.
        effect: It does nothing to columns.
    """

    effect: ClassVar[tuple[str, ...]] = ("attribute",)

    name: str
    texts: Callable[[EventBatch, Sequence[int]], Sequence[str | None]]
    overwrites: bool
    when: Evaluation | None = None

    def run(self, batch: EventBatch, rows: Sequence[int]) -> None:
        """Set the attribute."""
        rows = batch.selected(self.when, rows)
        texts_by_row = batch.attributes.setdefault(self.name, {})
        for row, text in zip(rows, self.texts(batch, rows), strict=True):
            if text is not None and (self.overwrites or row not in texts_by_row):
                texts_by_row[row] = text


@dataclass(frozen=True)
class Drop:
    """Removes events.

    Attributes:
        when: Those for which this is true; None: all.
        core_step: As in `ChangeStep`.
    """

    core_step: ClassVar[tuple[str, ...]] = ("drop",)

    when: Evaluation | None

    def run(self, batch: EventBatch, rows: Sequence[int]) -> None:
        """Remove those for which the condition is true."""
        batch.drop(batch.selected(self.when, rows))


@dataclass(frozen=True)
class SplitStep:
    """Replaces an event by several.

    Attributes:
        parts: Returns the new events; None: the event stays as it is.
        when: As in `ChangeStep`.
        splits: Marks a step that may make several events of one.
    """

    splits: ClassVar[bool] = True

    parts: Callable[[Event], list[Event] | None]
    when: Evaluation | None = None

    def run(self, batch: EventBatch, rows: Sequence[int]) -> None:
        """Replace the events."""
        rows = batch.selected(self.when, rows)
        events, parts_by_row = batch.opened(rows), dict[int, list[Event]]()
        for row in rows:
            try:
                if (parts := self.parts(events[row])) is not None:  # type: ignore[arg-type]
                    parts_by_row[row] = parts
            except ProcessorError as error:
                batch.fail(row, str(error), error.field)
        batch.split(parts_by_row)
