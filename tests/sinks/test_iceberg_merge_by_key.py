"""INSERT, UPDATE and DELETE reach a table as they would a dictionary, whatever is killed."""

from __future__ import annotations

import contextlib
import json
import random
import signal
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from calve.catalog.catalog import embedded
from calve.sinks.iceberg import merge_by_key
from kit.readers import PlainSpark, with_rust
from kit.running import Calve, post, until
from services.process import free_ports

pytestmark = pytest.mark.spark

QUICK = {"flush_interval": "50ms", "commit_interval": "50ms"}
SCHEMA = {
    "columns": [
        {"name": "id", "type": "long"},
        {"name": "city", "type": "string"},
        {"name": "version", "type": "long", "required": True},
    ],
    "partition_spec": [{"column": "city", "transform": "identity"}],
}
CITIES = ("x", "y", "z", None)
MODES = ("equality-delete", "merge-on-read")
KILLS = ("ledger.before-stage:3", "commit.after-swap:2")
"""Whichever pipeline is there first dies with the other: amid batches, and over those that the death before has left."""
BATCHES = 5


def configuration(port: int, **more: Any) -> str:
    sink = {"operation": "${/op}", "identifier_columns": ["id"], "auto_create": True, **QUICK, **more}
    return json.dumps({"p": {"source": {"http": {"port": port}}, "sink": [{"iceberg": sink}]}})


def changes(
    chosen: random.Random, oracle: dict[int, tuple[Any, int]], version: int, keep: bool
) -> list[dict[str, Any]]:
    """Make up changes of few keys and apply them to the oracle: rows move, come back, and go before they exist.

    Where updates keep what they lack, half of those of rows that are there lack a column.
    """
    found = []
    for number in range(chosen.randrange(1, 30)):
        key, city = chosen.randrange(12), chosen.choice(CITIES)
        word = chosen.choice(("insert", "U", "u", "delete", "D"))
        if word == "insert" and key in oracle:
            word = "update"
        if word in ("delete", "D"):
            oracle.pop(key, None)
            found.append({"op": word, "id": key})
            continue
        event = {"op": word, "id": key, "city": city, "version": version + number}
        if keep and word != "insert" and key in oracle and chosen.random() < 0.5:
            del event[chosen.choice(("city", "version"))]
        old = oracle.get(key, (None, 0))
        oracle[key] = (event.get("city", old[0]), event.get("version", old[1]))
        found.append(event)
    return found


def by_url(lakehouse: Path) -> dict[str, str]:
    """Give the embedded catalog with a warehouse that is a URL: Iceberg's Rust knows no other paths."""
    properties = embedded(lakehouse)
    return properties | {"warehouse": f"file://{properties['warehouse']}"}


class Mirrored:
    """A pipeline of one write mode, and a dictionary that gets the same changes."""

    def __init__(self, mode: str, port: int) -> None:
        self.table, self.port = f"db.{mode.replace('-', '_')}", port
        self.oracle: dict[int, tuple[Any, int]] = {}
        self._chosen, self._keep = random.Random(mode), mode != "equality-delete"
        more = {"write_mode": mode, "partial_updates": "keep" if self._keep else "null"}
        text = configuration(port, table_identifier=self.table, schema=SCHEMA, **more)
        self.pipeline = json.loads(text)["p"]

    def make_up(self, batch: int) -> None:
        self._found = changes(self._chosen, self.oracle, batch * 100, self._keep)

    def deliver(self, batch: int) -> bool:
        return post(self.port, self._found, f"{batch}") == 200

    def metadata(self, job: Calve) -> str:
        """Say where the table's metadata are now; cheap enough to be asked again and again."""
        file = job.folder / "lakehouse" / "catalog.db"
        if not file.exists():
            return ""
        with contextlib.closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as catalog:
            if not catalog.execute("select 1 from sqlite_master where name = 'iceberg_tables'").fetchall():
                return ""
            asked = "select metadata_location from iceberg_tables where table_name = ?"
            found = catalog.execute(asked, [self.table.removeprefix("db.")]).fetchone()
        return found[0] if found else ""

    def check(self, job: Calve, plain_spark: PlainSpark) -> None:
        name, batches = f"lakehouse.{self.table}", "summary['calve.batch']"
        asked = f"select count(distinct {batches}) = count({batches}) from {name}.snapshots"
        queries = [f"select id, city, version from {name} order by id", asked]
        [rows, order] = plain_spark(job.folder / "lakehouse", queries)
        assert rows == [[key, city, version] for key, (city, version) in sorted(self.oracle.items())]
        assert order == [[True]]
        table = job.catalog().load_table(self.table)
        assert with_rust(table.metadata_location, "select id, city, version from t order by id") == rows
        assert table.schema().identifier_field_names() == {"id"}


class Mortal:
    """Processes one after the other, each of which dies at the next of some points; the last one lives on."""

    def __init__(self, job: Calve, kills: tuple[str, ...]) -> None:
        self.job, self.kills = job, [*kills]
        self.job.start(environment={"CALVE_STOP_AT": kills[0]})

    def until(self, condition: Callable[[], bool], what: str) -> None:
        until(lambda: self._lives() and condition(), what, 240)

    def _lives(self) -> bool:
        assert self.job.process
        if self.job.process.poll() is not None:
            assert self.kills, f"calve ended: {self.job.said()[-2000:]}"
            assert self.job.process.returncode == -signal.SIGKILL, self.job.said()[-2000:]
            del self.kills[0]
            self.job.start(environment={"CALVE_STOP_AT": self.kills[0]} if self.kills else None)
        return True


def test_changes_of_many_batches_with_kills_between_leave_what_a_dictionary_holds(
    calve, plain_spark: PlainSpark
) -> None:
    both = [Mirrored(mode, port) for mode, port in zip(MODES, free_ports(2), strict=True)]
    pipelines = {each.table[3:]: each.pipeline for each in both}
    job: Calve = calve(json.dumps(pipelines))
    for pipeline in pipelines.values():
        pipeline["sink"][0]["iceberg"]["catalog"] = by_url(job.folder / "lakehouse")
    job.configure(json.dumps(pipelines))
    mortal = Mortal(job, KILLS)
    for batch in range(BATCHES):
        before = [each.metadata(job) for each in both]
        for each in both:
            each.make_up(batch)
            mortal.until(lambda each=each, batch=batch: each.deliver(batch), "the events are accepted")
        for each, known in zip(both, before, strict=True):
            mortal.until(lambda each=each, known=known: each.metadata(job) != known, "the batch is committed")
    assert mortal.kills == []
    for each in both:
        each.make_up(BATCHES)
        mortal.until(lambda each=each: each.deliver(BATCHES), "the events are accepted")
    job.kill()
    assert job.once() == 0
    for each in both:
        each.check(job, plain_spark)


def test_tables_made_from_events_take_changes_by_the_key_that_the_settings_name(calve, plain_spark: PlainSpark) -> None:
    pipeline = json.loads(configuration(0, table_identifier="db.${/kind}", schema_evolution=True))["p"]
    job: Calve = calve(json.dumps({"p": pipeline | {"source": {"file": {"path": "*.ndjson"}}}}))
    first = [{"kind": kind, "op": "c", "id": number} for kind in "ab" for number in range(3)]
    more = [{"kind": "a", "op": "d", "id": 1}, {"kind": "b", "op": "u", "id": 2, "new": 5}, {"kind": "b", "op": "x"}]
    for number, events in enumerate((first, [*more, {"kind": "a", "op": "c"}])):
        (job.folder / f"{number}.ndjson").write_text("".join(json.dumps(event) + "\n" for event in events))
        assert job.once() == 0, job.said()[-2000:]
    queries = ["select id from lakehouse.db.a order by id", "select id, new from lakehouse.db.b order by id"]
    assert plain_spark(job.folder / "lakehouse", queries) == [[[0], [2]], [[0, None], [1, None], [2, 5]]]
    assert sorted(one["code"] for one in job.dead_letters("p")) == ["NO_KEY", "UNKNOWN_OPERATION"]


def test_an_insert_replaces_its_row_with_upsert(calve, plain_spark: PlainSpark) -> None:
    schema = {"columns": [{"name": "id", "type": "uuid"}, {"name": "n", "type": "int"}]}
    sink = {"table_identifier": "db.t", "identifier_columns": ["id"], "auto_create": True, "upsert": True}
    yaml = {"p": {"source": {"file": {"path": "*.ndjson"}}, "sink": [{"iceberg": {**sink, "schema": schema}}]}}
    job: Calve = calve(json.dumps(yaml))
    key = "0f8fad5b-d9cb-469f-a165-70867728950e"
    for number in range(3):
        (job.folder / f"{number}.ndjson").write_text(json.dumps({"id": key, "n": number}) + "\n")
        assert job.once() == 0
    assert plain_spark(job.folder / "lakehouse", ["select n from lakehouse.db.t"]) == [[[2]]]


def test_an_update_that_is_no_row_is_a_dead_letter_once_and_the_rest_a_row_once_although_its_commit_died(
    calve, plain_spark: PlainSpark
) -> None:
    more = {"write_mode": "merge-on-read", "partial_updates": "keep", "table_identifier": "db.t", "schema": SCHEMA}
    pipeline = json.loads(configuration(0, **more))["p"] | {"source": {"file": {"path": "*.ndjson"}}}
    job: Calve = calve(json.dumps({"p": pipeline}))
    batches = [
        [{"op": "c", "id": 0, "version": 1}, {"op": "c", "id": 1, "version": 1}],
        [{"op": "u", "id": 0, "city": "x"}, {"op": "u", "id": 7, "city": "x"}, {"op": "d", "id": 1}],
        [{"op": "d", "id": 0}, {"op": "u", "id": 0}, {"op": "u", "id": 1}, {"op": "c", "id": 2, "version": 1}],
    ]
    for number, (events, death) in enumerate(zip(batches, ("", "", "commit.after-swap"), strict=True)):
        (job.folder / f"{number}.ndjson").write_text("".join(json.dumps(event) + "\n" for event in events))
        if death:
            job.killed_at(death)
        else:
            assert job.once() == 0, job.said()[-2000:]
    assert job.once() == 0, job.said()[-2000:]
    assert plain_spark(job.folder / "lakehouse", ["select * from lakehouse.db.t"]) == [[[2, None, 1]]]
    letters = job.dead_letters("p")
    assert [json.loads(one["event"]) for one in letters] == [batches[1][1], batches[2][1], batches[2][2]]
    assert {(one["code"], one["field"], one["sink"], one["table"]) for one in letters} == {
        ("REQUIRED_MISSING", "version", "iceberg", "db.t")
    }
    assert job.status("p")["tables"]["db.t"]["rejects"] == {"REQUIRED_MISSING": 3}


def test_a_table_without_a_key_cannot_be_updated(calve) -> None:
    [port] = free_ports(1)
    job: Calve = calve(configuration(port, table_identifier="db.t", identifier_columns=[], schema=SCHEMA))
    assert job.once() == 2
    assert "identifier_columns" in job.said()
    assert "Traceback" not in job.said()


def test_keys_of_integers_have_the_same_bucket_in_every_task_and_buckets_are_of_like_size() -> None:
    numbers = np.arange(-5_000, 5_000)
    for columns in ([pa.chunked_array([numbers])], [pa.chunked_array([numbers // 100]), pa.chunked_array([numbers])]):
        whole = merge_by_key._buckets(columns, 7)
        parts = [merge_by_key._buckets([column.slice(at, 1) for column in columns], 7)[0] for at in (0, 1, 9_999)]
        assert parts == [whole[0], whole[1], whole[9_999]]
        assert np.bincount(whole, minlength=7).min() > 1_000
