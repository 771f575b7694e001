"""A sink with `branch` writes there and nowhere else, and two branches of one table do not disturb each other."""

from __future__ import annotations

import json

import pytest

from kit.running import Calve

pytestmark = pytest.mark.spark

SINK = {"table_identifier": "shop.orders", "auto_create": True}


def configuration(*sinks: dict[str, object]) -> str:
    source = {"file": {"path": "in/*.ndjson"}}
    whole = [{"iceberg": SINK | sink} for sink in sinks]
    return json.dumps({"shop": {"source": source, "route": [{"bad": "/id < 0"}], "sink": whole}})


def feed(job: Calve, name: str, *ids: int) -> None:
    (job.folder / "in").mkdir(exist_ok=True)
    unfinished = job.folder / f".{name}"
    unfinished.write_text("".join(f'{{"id": {each}}}\n' for each in ids))
    unfinished.rename(job.folder / "in" / f"{name}.ndjson")


def ids(job: Calve, branch: str = "main") -> list[int]:
    """The rows of a branch as PyIceberg reads them."""
    table = job.catalog().load_table("shop.orders")
    snapshot = table.snapshot_by_name(branch)
    return sorted(table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()["id"].to_pylist()) if snapshot else []


def test_a_branch_begins_where_main_is_and_main_stays_as_it_was(calve) -> None:
    job: Calve = calve(configuration({}))
    feed(job, "a", 1, 2)
    assert job.once() == 0, job.said()
    job.configure(configuration({"branch": "audit"}))
    for number in (3, 4):
        feed(job, f"b{number}", number)
        assert job.once() == 0, job.said()
    assert (ids(job), ids(job, "audit")) == ([1, 2], [1, 2, 3, 4])


def test_two_sinks_write_to_two_branches_of_one_table_and_a_restart_doubles_nothing(calve) -> None:
    job: Calve = calve(configuration({"branch": "audit"}))
    feed(job, "a", 1)
    assert job.once() == 0, job.said()
    assert (ids(job), ids(job, "audit")) == ([], [1])
    job.configure(configuration({"routes": ["_default"]}, {"branch": "audit"}))
    feed(job, "b", 2, -2)
    job.killed_at("commit.after-swap")
    feed(job, "c", 3, -3)
    assert job.once() == 0, job.said()
    assert (ids(job), ids(job, "audit")) == ([2, 3], [-3, -2, 1, 2, 3])


def test_what_was_staged_before_there_were_branches_goes_to_main(calve) -> None:
    job: Calve = calve(configuration({}))
    feed(job, "a", 1)
    job.killed_at("pipeline.after-stage")
    [staged] = (job.folder / "calve-state" / "shop" / "ledger").glob("*.staged.json")
    record = json.loads(staged.read_text())
    assert record["tables"][0].pop("branch", "main") == "main"
    staged.write_text(json.dumps(record))
    job.configure(configuration({"branch": "audit"}))
    assert job.once() == 0, job.said()
    assert (ids(job), ids(job, "audit")) == ([1], [])


def test_a_tag_of_that_name_is_told_and_the_files_are_held_until_it_is_gone(calve) -> None:
    job: Calve = calve(configuration({}))
    feed(job, "a", 1)
    assert job.once() == 0, job.said()
    table = job.java_table("shop.orders")
    table.manageSnapshots().createTag("audit", table.currentSnapshot().snapshotId()).commit()
    job.configure(configuration({"branch": "audit"}))
    feed(job, "b", 2)
    assert job.once() == 1
    assert "The table shop.orders has a tag 'audit', so it cannot have a branch of that name" in job.said()
    assert "Traceback" not in job.said()
    table.manageSnapshots().removeTag("audit").commit()
    assert job.once() == 0, job.said()
    assert (ids(job), ids(job, "audit")) == ([1], [1, 2])
