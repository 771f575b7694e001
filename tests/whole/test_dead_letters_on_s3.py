"""Dead letters on an object store, as files under a prefix and as rows of a table: listed, shown, sent again."""

from __future__ import annotations

import json
import subprocess

import pytest
from pyiceberg.catalog import load_catalog

from kit.running import LITTLE
from services.objects import ObjectStore

pytestmark = [pytest.mark.spark, pytest.mark.services]

COLUMNS = {"columns": [{"name": "id", "type": "long"}, {"name": "name", "type": "string", "required": True}]}


def test_dead_letters_on_an_object_store_are_listed_shown_and_sent_again(
    object_store: ObjectStore, calve, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = {"catalog": object_store.rest_catalog(), "auto_create": True, "schema": COLUMNS}
    sinks = [
        {"iceberg": shared | {"table_identifier": "shop.files", "dlq": object_store.place("dead")}},
        {"iceberg": shared | {"table_identifier": "shop.rows", "dlq": {"table": "ops.dead"}}},
    ]
    job = calve(json.dumps({"orders": {"source": {"file": {"path": "events.ndjson"}}, "sink": sinks}}))
    lines = [*(json.dumps({"id": n} | ({"name": "x"} if n % 2 else {})) for n in range(10)), "no JSON"]
    (job.folder / "events.ndjson").write_text("\n".join(lines) + "\n")
    assert job.once() == 0, job.said()[-2000:]

    for name, value in object_store.environment().items():
        monkeypatch.setenv(name, value)

    def say(*arguments: str) -> str:
        done = job.call(*arguments)
        assert done.exit_code == 0, done.stderr
        return done.stdout

    [listed] = json.loads(say("dlq", "list", "--json"))["pipelines"]
    assert (listed["entries"], listed["tables"]) == (11, ["ops.dead"])
    assert {(one["table"], one["code"]): one["count"] for one in listed["counts"]} == {
        ("shop.files", "REQUIRED_MISSING"): 5, ("shop.rows", "REQUIRED_MISSING"): 5, ("", "MALFORMED"): 1,
    }  # fmt: skip
    shown = say("dlq", "show", "--raw", "--table", "shop.rows")
    assert [json.loads(line)["id"] for line in shown.splitlines()] == [0, 2, 4, 6, 8]
    catalog = load_catalog("theirs", **object_store.rest_catalog())
    for name in ("shop.files", "shop.rows"):
        with catalog.load_table(name).update_schema() as update:
            update.make_column_optional("name")
    command = job.command("dlq", "replay", "pipelines.yaml", "--master", "local[2]", *LITTLE)
    sent = subprocess.run(command, cwd=job.folder, capture_output=True, text=True, timeout=240)  # workers know the keys
    assert "orders: 11 events sent, 10 now in tables, 1 rejected again" in sent.stdout, sent.stderr
    for name in ("shop.files", "shop.rows"):
        assert sorted(catalog.load_table(name).scan().to_arrow()["id"].to_pylist()) == list(range(10))
