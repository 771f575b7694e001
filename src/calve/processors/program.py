"""The first processors of a pipeline as one program of the compiled core, which reads and writes each event once.

A step says what it is by texts (`told`). The core knows the steps of a few processors, for top-level fields, and leaves
events for which it is not certain to the steps themselves. Conditions are evaluated here, once for each choice of their
fields.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from calve.arrays import Mask
from calve.compiled import events as core
from calve.processors.evaluation import Evaluation
from calve.processors.fields import Key
from calve.processors.step import Step

__all__ = ["Done", "Program"]

_CHANGED, _DROPPED, _LEFT = 1, 2, 3


class Done(NamedTuple):
    """What became of events.

    Attributes:
        texts: Their texts (binary); the array that was given if none is changed.
        changed: Which of them are changed.
        dropped: Which of them are dropped.
        left: Which of them the steps must process, from the first one on.
    """

    texts: pa.Array
    changed: Mask
    dropped: Mask
    left: Mask


class Program:
    """As many of the first processors as the core knows.

    Args:
        processors: The steps of each processor.

    Attributes:
        processors: How many processors these are.
    """

    def __init__(self, processors: Sequence[Sequence[Step]]) -> None:
        names, conditions, told = dict[str, int](), list[Evaluation](), list[tuple[str, ...]]()
        self.processors = 0
        for steps in processors:
            texts = [_told(step, names, conditions) for step in steps]
            if not all(texts):
                break
            told += texts
            self.processors += 1
        fields = [[names.setdefault(name, len(names)) for name in one.expression.fields or ()] for one in conditions]
        self._core = core.program([*_texts(([*names], fields, told), {})]) if told else None
        self._conditions = conditions
        self._asks = sum(1 for when, *_ in told if when)

    def run(self, events: pa.Array) -> Done | None:
        """Process an array of binary; None without the core."""
        ran = self._core.run(events) if self._core else None
        for _ in range(self._asks):  # each step can ask for what the one before it hid
            if ran is None or self._core is None or not len(ran.choices):
                break
            self._answer(self._core, ran)
            ran = self._core.run(events)
        if ran is None:
            return None
        ends = ran.ends.to_numpy()
        changed = ends == _CHANGED
        return Done(ran.texts if changed.any() else events, changed, ends == _DROPPED, ends == _LEFT)

    def _answer(self, program: core.Program, ran: core.Ran) -> None:
        numbers = ran.conditions.to_numpy()
        for number in np.unique(numbers).tolist():
            choices = ran.choices.filter(pa.array(numbers == number))
            program.learn(number, choices, self._conditions[number].of_fields(choices.to_pylist()))


def _told(step: Step, names: dict[str, int], conditions: list[Evaluation]) -> tuple[str, ...]:
    """Return what the core is told of a step; nothing if it does not know the step."""
    told, when = getattr(step, "told", ()), getattr(step, "when", None)
    if not told or any(type(one) is Key and one.flat is None for one in _leaves(told)):
        return ()
    if when is None:
        return ("", *_texts(told, names))
    if not when.expression.is_pure:
        return ()
    known = [one.expression for one in conditions]
    if when.expression not in known:
        conditions.append(when)
        known.append(when.expression)
    return (str(known.index(when.expression)), *_texts(told, names))


def _leaves(told: Any) -> Iterator[Any]:
    for one in told:
        yield from _leaves(one) if isinstance(one, list | tuple) else (one,)


def _texts(told: Any, names: dict[str, int]) -> Iterator[str]:
    """Yield the texts of a tuple; of a list the length comes first. A key becomes the number of its name."""
    if isinstance(told, list):
        yield str(len(told))
    for one in told:
        if isinstance(one, list | tuple):
            yield from _texts(one, names)
        elif type(one) is Key:
            yield str(names.setdefault(one.parts[0], len(names)))
        else:
            yield "" if one is None else str(int(one) if type(one) is bool else one)
