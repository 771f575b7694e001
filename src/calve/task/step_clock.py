"""The current step of a task, and the seconds of each step. Runs on executors."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ParamSpec, TypeVar

from calve.record.target import TableRef
from calve.task.job import STEPS

__all__ = ["StepClock"]

P = ParamSpec("P")
T = TypeVar("T")


@dataclass
class StepClock:
    """What a task does now, for its errors, and what its steps took, for its receipt.

    Attributes:
        step: One of `STEPS`.
        target: The table; None: not a single table.
        seconds: The seconds of each step.
    """

    step: str = "read"
    target: TableRef | None = None
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STEPS, 0.0))

    def timed(self, step: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function as part of a step."""
        start = time.perf_counter()
        self.step = step
        try:
            return function(*args, **kwargs)
        finally:
            self.seconds[step] += time.perf_counter() - start
