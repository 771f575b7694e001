"""When a table gets a round of maintenance; nothing runs here."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from calve.commit.mark import CommitTarget
from calve.commit.outcome import Outcome
from calve.observe.report import BranchFileStats
from calve.pipeline import table_maintenance
from calve.pipeline.table_maintenance import TableMaintenance
from calve.table.limits import MaintenanceLimits


@pytest.mark.parametrize("is_early", [True, False])
def test_orphans_too_leave_the_machine_to_the_first_batches_of_a_run(
    monkeypatch: pytest.MonkeyPatch, is_early: bool
) -> None:
    monkeypatch.setattr(table_maintenance, "_next_time", lambda table, now: now - 1)  # the time of the day has come
    context = cast(Any, SimpleNamespace(name="ns.t", target=CommitTarget("ns.t")))
    maintenance = TableMaintenance(cast(Any, None), cast(Any, SimpleNamespace(name="p")), threading.Condition())
    outcome = Outcome(batches=(1,), files=1, held=BranchFileStats(data_files=1))
    maintenance.committed("c", context, outcome, MaintenanceLimits())
    later = time.monotonic() + (0 if is_early else 61)
    assert (maintenance.next(later) is None) == is_early
