"""Processors that change lists: keep some elements, or make an object of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from calve.processors.expressions import Compiler, condition
from calve.processors.fields import MISSING, Event, FieldKey, opened
from calve.processors.step import ChangeStep, ProcessorError, ProcessorStep
from calve.settings.option import option

if TYPE_CHECKING:
    from calve.processors.evaluation import Evaluation
    from calve.processors.event_batch import EventBatch

__all__ = ["FilterList", "WrapEntries"]

_TAGS = "Tags of events that have no list there; they continue. Without tags they become dead letters."
_WHEN = "A condition; the processor changes only events for which it is true."
_NOT_A_LIST = "not a list"


@dataclass(frozen=True)
class FilterList:
    """Keeps only some elements of a list."""

    iterate_on: str = option(doc="The key of the list.", check=FieldKey.checked)
    target: str | None = option(None, "The key of the new list; without it the new list replaces the old one.")
    keep_element_when: str = option(
        doc="A condition over the element; one that is no object is its field `value`.", check=condition
    )
    filter_list_when: str | None = option(None, _WHEN, check=condition)
    tags_on_failure: list[str] = option([], _TAGS)

    @property
    def tags(self) -> list[str]:
        """Tags that it may set."""
        return self.tags_on_failure

    def steps(self, compiler: Compiler) -> list[ProcessorStep]:
        """Build the step."""
        keep, when = compiler.condition(self.keep_element_when), compiler.condition(self.filter_list_when)
        assert keep is not None
        return [_Filter(self, keep, when)]


class _Filter:
    """The step of `filter_list`."""

    def __init__(self, settings: FilterList, keep: Evaluation, when: Evaluation | None) -> None:
        self._keep, self._when, self._tags = keep, when, settings.tags_on_failure
        self._source = FieldKey(settings.iterate_on)
        self._target = FieldKey.checked(settings.target or settings.iterate_on)

    def run(self, batch: EventBatch, rows: Sequence[int]) -> None:
        rows = batch.selected(self._when, rows)
        events, lists = batch.opened(rows), dict[int, list[Any]]()
        for row in rows:
            value = opened(self._source.get(events[row]))  # type: ignore[arg-type]
            if type(value) is list:
                lists[row] = value
            elif value is not MISSING and value is not None:
                batch.fail(row, _NOT_A_LIST, self._source.dotted, self._tags)
        elements = [(row, _as_object(item)) for row, items in lists.items() for item in items]
        is_kept = iter(batch.evaluate_elements(self._keep, elements))
        for row, items in lists.items():
            kept = [item for item in items if next(is_kept)]
            if self._target.put(events[row], kept):  # type: ignore[arg-type]
                batch.touched[row] = 1
            else:
                batch.fail(row, "a value on the way to this key is not an object", self._target.dotted, self._tags)


def _as_object(element: Any) -> Event:
    value = opened(element)
    return value if type(value) is dict else {"value": element}


@dataclass(frozen=True)
class WrapEntries:
    """Makes an object of each element of a list: `["a"]` becomes `[{"name": "a"}]`."""

    source: str = option(doc="The key of the list.", check=FieldKey.checked)
    target: str | None = option(None, "The key of the new list; without it the new list replaces the old one.")
    key: str = option(doc="The key of the element in its object.", minimum=1)
    exclude_null_empty_values: bool = option(False, "Leave out null and empty texts.")
    append_if_target_exists: bool = option(False, "Append the objects to a list that is there.")
    wrap_entries_when: str | None = option(None, _WHEN, check=condition)
    tags_on_failure: list[str] = option([], _TAGS)

    @property
    def tags(self) -> list[str]:
        """Tags that it may set."""
        return self.tags_on_failure

    def check(self) -> Iterator[tuple[str, str]]:
        """Require a list to append to."""
        if self.append_if_target_exists and self.target is None:
            yield "append_if_target_exists", "needs a target"

    def steps(self, compiler: Compiler) -> list[ProcessorStep]:
        """Build the step."""
        change = partial(self._wrap, FieldKey(self.source), FieldKey.checked(self.target or self.source))
        return [ChangeStep(change, compiler.condition(self.wrap_entries_when), tuple(self.tags_on_failure))]

    def _wrap(self, source: FieldKey, target: FieldKey, event: Event) -> bool:
        items = opened(source.get(event))
        if items is MISSING or items is None or items == []:
            return False
        if type(items) is not list:
            raise ProcessorError(_NOT_A_LIST, source.dotted)
        is_empty = [self.exclude_null_empty_values and opened(item) in (None, "") for item in items]
        wrapped = [{self.key: item} for item, leave_out in zip(items, is_empty, strict=True) if not leave_out]
        before = opened(target.get(event)) if self.append_if_target_exists else MISSING
        if before is not MISSING:
            if type(before) is not list:
                raise ProcessorError(_NOT_A_LIST, target.dotted)
            wrapped = [*before, *wrapped]
        if not target.put(event, wrapped):
            raise ProcessorError("a value on the way to this key is not an object", target.dotted)
        return True
