"""What a staged record says of its batch."""

from __future__ import annotations

import json

import msgspec

from calve.acknowledge.progress import StagedBatches, counts
from calve.observe.totals import Totals
from calve.record.staged import StagedBatch
from calve.record.target import BranchRef
from calve.record.written import Ignored, Nulled, Rejects

RECORD = StagedBatch(
    batch=3, events=9, bytes=99, unrouted=0, tables=[], position={},
    rejects=[Rejects({"ns.t": {"NO_KEY": 1}}, {"ns.t": {"NO_KEY": "id: no value"}})],
    nulled=[Nulled("ns.t", {"n": 1}, {"n": "first"}), Nulled("ns.t", {"n": 2, "m": 1}, {"n": "second", "m": "other"})],
    ignored=[Ignored("ns.t", {"new": 1}), Ignored("ns.t", {"new": 2, "in.x": 5})],
)  # fmt: skip


def test_the_counts_of_all_tasks_are_added_and_the_first_example_stays() -> None:
    found = counts(RECORD)
    assert (found.nulled, found.reasons) == ({"ns.t": {"n": 3, "m": 1}}, {"ns.t": {"n": "first", "m": "other"}})
    assert (found.ignored, found.examples) == ({"ns.t": {"new": 3, "in.x": 5}}, {"ns.t": {"NO_KEY": "id: no value"}})


def test_a_record_of_an_earlier_version_is_counted() -> None:
    old = {key: value for key, value in msgspec.to_builtins(RECORD).items() if key != "ignored"}
    old |= {"nulled": [["ns.t", {"n": 4}]], "rejects": [{"counts": {"ns.t": {"NO_KEY": 1}}}]}
    found = counts(msgspec.convert(old, StagedBatch))
    assert (found.nulled, found.reasons, found.ignored) == ({"ns.t": {"n": 4}}, {}, {})
    assert (found.rejects, found.examples) == ({"ns.t": {"NO_KEY": 1}}, {})


def test_a_batch_that_is_done_is_in_the_totals_once() -> None:
    progress = StagedBatches(Totals(), "p")
    for _ in range(2):
        totals = progress.count(RECORD)
    table = totals.tables["ns.t"]
    assert (table.nulled, table.ignored) == ({"n": 3, "m": 1}, {"new": 3, "in.x": 5})


def test_totals_that_were_returned_do_not_change_with_later_batches() -> None:
    progress = StagedBatches(Totals(), "p")
    first = progress.count(RECORD)
    before = msgspec.json.encode(first)
    again = StagedBatches(first, "p")
    for one in (progress, again):
        one.count(msgspec.structs.replace(RECORD, batch=4))
    assert msgspec.json.encode(first) == before


def test_a_large_position_is_in_no_snapshot() -> None:
    progress = StagedBatches(Totals(), "p")
    for batch, topics in ((1, 10), (2, 5000)):
        position = {f"topic-{number}": {"0": number} for number in range(topics)}
        progress.add(msgspec.structs.replace(RECORD, batch=batch, position=position))
    target = BranchRef("c", "ns.t", "main")
    assert json.loads(progress.summary(target, 1)["calve.offsets"])["topic-9"] == {"0": 9}
    assert "calve.offsets" not in progress.summary(target, 2)
