"""Decides for each batch whether tasks shuffle small parts, to write them together, and explains why."""

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
"""With fewer tasks, fewer saved files or a smaller share of them, a shuffle is not worth its cost: 10 to 50 % more
CPU, the more the larger the parts are (bench/small_files.py)."""
_PASSED_OVER = 16
"""After a batch without a gain, this number of batches with several tasks does not shuffle."""


class Distribution:
    """The choice for one pipeline; runs on the driver.

    The gain of a batch is known after it is written. So the first batch with several tasks shuffles its small parts,
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
        """Return the job with its number of reduce tasks."""
        if tasks < 2:
            self.reason = "written as they are: the batch is one task"
        elif not any(job.shuffle_below_bytes):
            self.reason = "written as they are: distribution is none"
        elif tasks < _TASKS and not self._always:
            self.reason = f"written as they are: of the parts of {tasks} tasks, a shuffle would save half at best"
        elif not any(sink.may_shuffle for sink in job.sinks):
            self.reason = "written as they are: there is one table, without partitions"
        elif self._wait:
            self._wait -= 1
            self.reason = f"written as they are: {self._last_result}"
        else:
            return dataclasses.replace(job, shuffle_partitions=tasks)
        return job

    def learn(self, job: Job, receipts: Sequence[Receipt]) -> None:
        """Evaluate the result of a job."""
        shuffled_parts = sum(receipt.shuffled_parts for receipt in receipts)
        files = sum(len(table.files) for receipt in receipts if receipt.task < 0 for table in receipt.tables)
        if not job.shuffle_partitions or not any(receipt.tables for receipt in receipts):
            return
        self._last_result = f"of {many(shuffled_parts, 'small part')}, a shuffle made {many(files, 'file')}"
        self.reason = (
            f"shuffled by partition: {many(shuffled_parts, 'small part')} of the tasks became {many(files, 'file')}"
        )
        saved = shuffled_parts - files
        worth = saved >= _SAVED_FILES and saved >= shuffled_parts * _SAVED_SHARE
        self._wait = 0 if worth or self._always else _PASSED_OVER
