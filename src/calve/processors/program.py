"""The first processors of a pipeline as one program of the compiled core, which reads and writes each event once.

A step describes itself by texts (`core_step`). The core knows the steps of a few processors, for top-level fields. It
leaves events for which it is not certain to the steps in Python. Conditions are evaluated here, once for each choice of
their fields.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from calve.arrays import Mask
from calve.compiled import events as core
from calve.processors.evaluation import Evaluation
from calve.processors.fields import FieldKey
from calve.processors.step import ProcessorStep

__all__ = ["CoreProgram", "ProgramResult"]

_CHANGED, _DROPPED, _LEFT = 1, 2, 3


class ProgramResult(NamedTuple):
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


class CoreProgram:
    """As many of the first processors as the core knows.

    Args:
        processors: The steps of each processor.

    Attributes:
        processors: How many processors these are.
    """

    def __init__(self, processors: Sequence[Sequence[ProcessorStep]]) -> None:
        names, conditions, program = dict[str, int](), list[Evaluation](), list[tuple[str, ...]]()
        self.processors = 0
        for steps in processors:
            texts = [_texts_of_step(step, names, conditions) for step in steps]
            if not all(texts):
                break
            program += texts
            self.processors += 1
        fields = [
            [names.setdefault(name, len(names)) for name in condition.expression.fields or ()]
            for condition in conditions
        ]
        self._core = core.program([*_texts(([*names], fields, program), {})]) if program else None
        self._conditions = conditions
        self._asks = sum(1 for when, *_ in program if when)

    def run(self, events: pa.Array) -> ProgramResult | None:
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
        return ProgramResult(ran.texts if changed.any() else events, changed, ends == _DROPPED, ends == _LEFT)

    def _answer(self, program: core.Program, ran: core.Ran) -> None:
        numbers = ran.conditions.to_numpy()
        for number in np.unique(numbers).tolist():
            choices = ran.choices.filter(pa.array(numbers == number))
            program.learn(number, choices, self._conditions[number].of_fields(choices.to_pylist()))


def _texts_of_step(step: ProcessorStep, names: dict[str, int], conditions: list[Evaluation]) -> tuple[str, ...]:
    """Return the texts that describe a step to the core; none if the core does not know the step."""
    core_step, when = getattr(step, "core_step", ()), getattr(step, "when", None)
    if not core_step or any(type(part) is FieldKey and part.flat is None for part in _leaves(core_step)):
        return ()
    if when is None:
        return ("", *_texts(core_step, names))
    if not when.expression.is_pure:
        return ()
    expressions = [condition.expression for condition in conditions]
    if when.expression not in expressions:
        conditions.append(when)
        expressions.append(when.expression)
    return (str(expressions.index(when.expression)), *_texts(core_step, names))


def _leaves(step: Any) -> Iterator[Any]:
    for part in step:
        yield from _leaves(part) if isinstance(part, list | tuple) else (part,)


def _texts(step: Any, names: dict[str, int]) -> Iterator[str]:
    """Yield the texts of a tuple; of a list the length comes first. A key becomes the number of its name."""
    if isinstance(step, list):
        yield str(len(step))
    for part in step:
        if isinstance(part, list | tuple):
            yield from _texts(part, names)
        elif type(part) is FieldKey:
            yield str(names.setdefault(part.parts[0], len(names)))
        else:
            yield "" if part is None else str(int(part) if type(part) is bool else part)
