"""`calve validate --connect`: a sentence for each thing that does not answer or is not there, and nothing written."""

from __future__ import annotations

import contextlib
import json
import socket
import sqlite3
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import Result
from pyarrow import fs, parquet
from pyiceberg.catalog import load_catalog

from kit.running import Calve
from services.objects import WAREHOUSE, ObjectStore
from services.process import free_ports

pytestmark = pytest.mark.spark


def pipeline(source: dict[str, Any], **sink: Any) -> dict[str, Any]:
    return {"source": source, "sink": [{"iceberg": {"table_identifier": "a.b", **sink}}]}


def connect(job: Calve) -> Result:
    return job.call("validate", "pipelines.yaml", "--connect")


def test_what_is_missing_or_does_not_answer_is_told_in_one_sentence_each(calve) -> None:
    [nobody] = free_ports(1)
    kafka = {"bootstrap_servers": [f"127.0.0.1:{nobody}"], "topics": [{"name": "t", "group_id": "g"}]}
    rest = {"type": "rest", "uri": f"http://127.0.0.1:{nobody}", "warehouse": "w"}
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        pipelines = {
            "one": pipeline({"kafka": kafka}),
            "two": pipeline({"http": {"port": port}}, catalog=rest),
            "three": pipeline({"file": {"path": "nothing.ndjson"}}, auto_create=True),
        }
        job = calve(json.dumps(pipelines))
        done = connect(job)
    assert done.exit_code == 1
    starts = [
        f"Error: one: the source kafka: Kafka at 127.0.0.1:{nobody} does not answer",
        f"Error: two: the source http: port {port} is taken on 127.0.0.1. ",
        "Error: three: the source file: The file ",
        "Error: one: the sink iceberg: The table a.b does not exist in the catalog lakehouse. Create it",
        f"Error: two: the sink iceberg: iceberg: Connect to http://127.0.0.1:{nobody} failed",
    ]
    lines = done.stderr.splitlines()
    assert [line[: len(start)] for line, start in zip(lines, starts, strict=True)] == starts
    assert [path.name for path in job.folder.iterdir()] == ["pipelines.yaml"]


def test_where_tables_cannot_be_stored_is_told_before_a_run_meets_it(calve) -> None:
    pipelines = {
        "one": pipeline({"file": {"path": "*.ndjson"}}, auto_create=True, table_location="/proc/nowhere/t"),
        "two": pipeline({"file": {"path": "*.ndjson"}}, auto_create=True, dlq="/proc/nowhere/dlq"),
    }
    job = calve(json.dumps(pipelines))
    done = connect(job)
    errors = [line.split(" cannot ")[0] for line in done.stderr.splitlines() if "warning: Nothing matches" not in line]
    assert (done.exit_code, errors) == (
        1,
        ["Error: one: the sink iceberg: /proc/nowhere/t", "Error: two: the sink iceberg: /proc/nowhere/dlq"],
    )
    assert [path.name for path in job.folder.iterdir()] == ["pipelines.yaml"]


def test_a_catalog_that_was_tried_has_no_trace_of_it(calve) -> None:
    job = calve("")
    place = job.folder / "lakehouse"
    jdbc = {
        "type": "jdbc",
        "jdbc.schema-version": "V1",
        "uri": f"jdbc:sqlite:{place}/catalog.db",
        "warehouse": str(place),
    }
    (job.folder / "events.ndjson").write_text('{"id": 1}\n')
    source = {"file": {"path": "*.ndjson"}}
    job.configure(json.dumps({"one": pipeline(source, catalog=jdbc, auto_create=True)}))
    assert connect(job).exit_code == 0
    assert not place.exists()
    assert job.once() == 0, job.said()
    before = sorted(place.rglob("*")), sqlite_rows(place)
    job.configure(json.dumps({"one": pipeline(source, catalog=jdbc, auto_create=True, table_identifier="new.${/t}")}))
    assert connect(job).exit_code == 0
    assert (sorted(place.rglob("*")), sqlite_rows(place)) == before


def sqlite_rows(place: Path) -> list[Any]:
    with contextlib.closing(sqlite3.connect(place / "catalog.db")) as database:
        names = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return [database.execute(f"SELECT * FROM {name}").fetchall() for name in sorted(names)]


def stored(store: ObjectStore) -> set[str]:
    """Return all objects and folders of the catalog's warehouse, whichever test made them."""
    below = fs.FileSelector(WAREHOUSE, recursive=True)
    return {info.path for info in fs.S3FileSystem(**store.s3()).get_file_info(below)}


@pytest.mark.services
def test_a_store_that_refuses_is_told_and_one_that_does_not_has_no_trace(object_store: ObjectStore, calve) -> None:
    rest = object_store.rest_catalog()
    source = {"file": {"path": "*.ndjson"}}
    job = calve(json.dumps({"one": pipeline(source, catalog=rest, auto_create=True, table_identifier="never.made")}))
    catalog = load_catalog("theirs", **rest)
    before, before_files = catalog.list_namespaces(), stored(object_store)
    for _ in range(2):
        done = connect(job)
        assert done.exit_code == 0, done.stderr
        assert catalog.list_namespaces() == before
        assert stored(object_store) == before_files
    (job.folder / "a.ndjson").write_text('{"id": 1}\n')
    assert job.once() == 0, "a run after the check: " + job.said()
    after_run = stored(object_store)
    names = ("never.made", "never.new", "a_new.deep.name")
    for name in names:
        job.configure(json.dumps({"one": pipeline(source, catalog=rest, auto_create=True, table_identifier=name)}))
        done = connect(job)
        assert done.exit_code == 0, done.stderr
        assert stored(object_store) == after_run, name
    wrong = rest | {"s3.secret-access-key": "wrong"}
    job.configure(json.dumps({"one": pipeline(source, catalog=wrong, auto_create=True)}))
    done = connect(job)
    assert done.exit_code == 1
    assert "403" in done.stderr or "ACCESS_DENIED" in done.stderr


@pytest.mark.parametrize(
    ("name", "codec", "content", "said"),
    [
        ("a.csv", "csv", b"id,name,id\n1,x,2\n", "has two columns of the name 'id', the columns 1 and 3"),
        ("a.parquet", "parquet", b"PAR1 and no more", "a.parquet"),
    ],
)
def test_a_first_file_that_can_only_become_a_dead_letter_is_a_problem(calve, name, codec, content, said) -> None:
    job = calve(json.dumps({"one": pipeline({"file": {"path": name, "codec": {codec: {}}}})}))
    (job.folder / name).write_bytes(content)
    done = connect(job)
    assert done.exit_code == 1
    assert said in done.stderr
    assert "dead letter" in done.stderr


def test_a_first_file_of_typed_rows_is_ok(calve) -> None:
    job = calve(json.dumps({"one": pipeline({"file": {"path": "*.parquet"}}, auto_create=True)}))
    parquet.write_table(pa.table({"id": [1]}), job.folder / "a.parquet")
    done = connect(job)
    assert done.exit_code == 0, done.stderr


def test_what_is_there_is_ok_and_stays_as_it_was(calve, tmp_path) -> None:
    hadoop = {"type": "hadoop", "warehouse": str(tmp_path / "warehouse")}
    job = calve(json.dumps({"one": pipeline({"file": {"path": "*.ndjson"}}, catalog=hadoop, auto_create=True)}))
    done = connect(job)
    assert (done.exit_code, done.stdout) == (0, "OK: 1 pipeline: one\n")
    assert not (tmp_path / "warehouse").exists()
