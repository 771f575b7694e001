"""`publish`: main has only commits that its rules hold for, whatever is killed, until somebody decides otherwise."""

from __future__ import annotations

import json

import pytest

from kit.running import Calve

pytestmark = pytest.mark.spark

SINK = {
    "table_identifier": "shop.orders",
    "auto_create": True,
    "table_properties": {"write.metadata.metrics.default": "none"},  # what rules read is counted all the same
    "publish": {"when": {"max_null_share": {"email": 0.25}, "freshness": {"column": "at", "max_age": "876000h"}}},
}
SHOP = {"shop": {"source": {"file": {"path": "in/*.ndjson"}}, "sink": [{"iceberg": SINK}]}}


def feed(job: Calve, name: str, *ids: int, emails: int = 9) -> None:
    """Add a file; the first rows have an email."""
    (job.folder / "in").mkdir(exist_ok=True)
    rows = [
        {"id": each, "email": "a@x" if n < emails else None, "at": "2026-01-01T00:00:00Z"} for n, each in enumerate(ids)
    ]
    unfinished = job.folder / f".{name}"
    unfinished.write_text("".join(json.dumps(row) + "\n" for row in rows))
    unfinished.rename(job.folder / "in" / f"{name}.ndjson")


def ids(job: Calve, branch: str = "main") -> list[int]:
    """The rows of a branch as PyIceberg reads them."""
    table = job.catalog().load_table("shop.orders")
    snapshot = table.snapshot_by_name(branch)
    return sorted(table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()["id"].to_pylist()) if snapshot else []


def test_a_bad_commit_stays_off_main_through_kills_until_it_is_forced_and_later_ones_follow(calve) -> None:
    job: Calve = calve(json.dumps(SHOP))
    feed(job, "a", 1, 2)
    job.killed_at("commit.before-swap")
    assert job.once() == 0, job.said()
    assert ids(job) == ids(job, "audit") == [1, 2]
    feed(job, "b", 3, 4, emails=1)
    job.killed_at("commit.after-swap")  # the commit has its verdict, and nobody has said so
    assert (ids(job), ids(job, "audit")) == ([1, 2], [1, 2, 3, 4])
    feed(job, "c", 5, 6)
    assert job.once() == 0, job.said()
    assert (ids(job), ids(job, "audit")) == ([1, 2], [1, 2, 3, 4, 5, 6])
    reason = "email is NULL in 1 of 2 rows (50.000%), at most 25.000%"
    assert f"4 rows are not published, nor is what comes: max_null_share.email: {reason}" in job.said()
    shown = job.call("status").stdout
    assert "4 rows on audit" in shown
    assert reason in shown
    looked = job.call("publish", "shop.orders", "--pipelines", "pipelines.yaml", "--json")
    assert looked.exit_code == 4, looked.stderr
    [table] = json.loads(looked.stdout)["tables"]
    assert (table["done"], table["commits"], table["rows"]) == ("waits", 2, 4)
    assert table["rules"]["max_null_share.email"]["figure"] == 0.5
    assert job.call("publish", "shop.orders", "--force").exit_code == 0
    assert ids(job) == [1, 2, 3, 4, 5, 6]
    feed(job, "d", 7, 8)
    assert job.once() == 0, job.said()
    assert ids(job) == ids(job, "audit") == [1, 2, 3, 4, 5, 6, 7, 8]
