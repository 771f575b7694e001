"""The failure of a task with masks has nothing of what they hide, whatever the error says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

from calve import stop_point
from calve.event.columns import EVENT
from calve.processors.mask import ColumnMask, MaskColumns
from calve.processors.masking import Masks
from calve.record.receipt import Failure
from calve.sources.source import Split
from calve.task.job import Job
from calve.task.task import run_task

CANARY = "canary"


@dataclass(frozen=True)
class Reads:
    """Yields an event, or fails with it."""

    fails: bool

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the event."""
        if self.fails:
            raise ValueError(f"cannot read {CANARY}")
        yield pa.record_batch({EVENT: pa.array([b'{"name": "canary"}'])})


@pytest.mark.parametrize("unmasked", ["withhold", "keep"])
@pytest.mark.parametrize("step", ["read", "decode"])
def test_what_is_not_masked_yet_is_not_in_the_failure_of_a_task(step: str, unmasked: Any) -> None:
    columns = [ColumnMask(names=["name"], action="null")]
    masks = Masks((MaskColumns(columns=columns, unmasked=unmasked),))
    with mock.patch.object(stop_point, "_failing", [("task.decode", ":", CANARY)]):
        failure = run_task(Job("p", "run", Reads(step == "read"), (), 3, masks=masks), [Split({})], 0)
    assert isinstance(failure, Failure)
    assert ("Error, the text of which is withheld" in failure.message) == (unmasked == "withhold")
    assert "in read" in str(failure) or "in decode" in str(failure), "the lines of the code stay"
    assert (CANARY in str(failure)) == (unmasked == "keep")
