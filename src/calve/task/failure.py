"""Returns the error that ended a task as data, because Spark erases exception types. Runs on executors."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Protocol

from pyspark import TaskContext

from calve.credentials import in_short
from calve.errors import CalveError, EngineError, UnprocessableError, WriteError
from calve.record.receipt import Failure, Receipt
from calve.task.job import UNMASKED_STEPS, Job
from calve.task.secrets import remember_secrets
from calve.task.step_clock import StepClock
from calve.write.writer import UnwrittenFileError

__all__ = ["Discards", "attempt", "reported"]


class Discards(Protocol):
    """Has written files that can be removed."""

    def discard(self) -> None:
        """Remove them."""


def attempt() -> str:
    """Return a unique name of this attempt of a task."""
    context = TaskContext.get()
    return f"{context.taskAttemptId() if context else 0}"


def reported(job: Job, task: Discards, run: Callable[[], Receipt], clock: StepClock) -> Receipt | Failure:
    """Return the receipt of a task, or the error that ended it; after an error its files are removed."""
    remember_secrets(job)
    try:
        return run()
    except Exception as error:
        task.discard()
        return Failure.of(_as_calve_error(job, error, clock))


def _as_calve_error(job: Job, error: BaseException, clock: StepClock) -> CalveError:
    """Convert an error to Calve's. The events may be the reason of an unexpected error, unless it is the machine's."""
    if isinstance(error, UnwrittenFileError) and error.__cause__ is not None:
        return _as_calve_error(job, error.__cause__, StepClock(clock.step, error.key.target))
    message = in_short(error)
    match error:
        case CalveError():
            return error
        case OSError():
            hint = "Check the disks of the executors and the storage; Calve retries the batch"
            return WriteError(f"A task failed: {message}", step=clock.step, target=job.pipeline, hint=hint)
        case ImportError():
            hint = "Install Calve with its dependencies on the executors; `calve doctor` lists what is missing"
            return EngineError(f"A task failed: {message}", step=clock.step, target=job.pipeline, hint=hint)
    sink = clock.target.sink if clock.target else 0 if len(job.sinks) == 1 else None
    table = clock.target.table if clock.target else ""
    evidence = "".join(traceback.format_exception(error))
    if job.masks and not job.masks.keeps_unmasked and clock.step in UNMASKED_STEPS:
        message = f"{type(error).__name__}, the text of which is withheld: events are not masked at this step"
        evidence = "".join([*traceback.format_tb(error.__traceback__), message])
    return UnprocessableError(message, step=clock.step, target=table, sink=sink, evidence=evidence)
