"""Decides for each batch whether tasks hand on small parts, to write them together, and explains why."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from calve.observe.humanize import many
from calve.record.receipt import Receipt
from calve.task.job import Job

__all__ = ["Distribution"]

_TASKS = 3
_SAVED_FILES = 4
_SAVED_SHARE = 0.6
"""With fewer tasks, fewer saved files or a smaller share of them, handing on is not worth its cost: 10 to 50 % more
CPU, the more the larger the parts are (bench/small_files.py)."""
_PASSED_OVER = 16
"""After a batch without a gain, this number of batches with several tasks does not hand on parts."""


class Distribution:
    """The choice for one pipeline; runs on the driver.

    The gain of a batch is known after it is written. So the first batch with several tasks hands on its small parts,
    and the next ones do so as long as this saves files.

    Args:
        always: Whether a sink has `distribution: hash`.

    Attributes:
        reason: How the last batch was written, and why.
    """

    def __init__(self, always: bool = False) -> None:
        self.reason = ""
        self._always = always
        self._wait = 0
        self._last_result = ""

    def choose(self, job: Job, tasks: int) -> Job:
        """Return the job with its number of gathering tasks."""
        if tasks < 2:
            self.reason = "written as they are: the batch is one task"
        elif not any(job.limits):
            self.reason = "written as they are: distribution is none"
        elif tasks < _TASKS and not self._always:
            self.reason = f"written as they are: of the parts of {tasks} tasks, gathering would save half at best"
        elif not any(sink.has_parts for sink in job.sinks):
            self.reason = "written as they are: there is one table, without partitions"
        elif self._wait:
            self._wait -= 1
            self.reason = f"written as they are: {self._last_result}"
        else:
            return dataclasses.replace(job, gatherers=tasks)
        return job

    def learn(self, job: Job, receipts: Sequence[Receipt]) -> None:
        """Evaluate the result of a job."""
        handed_on = sum(receipt.handed_on for receipt in receipts)
        files = sum(len(table.files) for receipt in receipts if receipt.task < 0 for table in receipt.tables)
        if not job.gatherers or not any(receipt.tables for receipt in receipts):
            return
        self._last_result = f"of {many(handed_on, 'small part')}, gathering made {many(files, 'file')}"
        self.reason = (
            f"gathered by partition: {many(handed_on, 'small part')} of the tasks became {many(files, 'file')}"
        )
        saved = handed_on - files
        worth = saved >= _SAVED_FILES and saved >= handed_on * _SAVED_SHARE
        self._wait = 0 if worth or self._always else _PASSED_OVER
