"""One task, many tables: what is converted together stays apart."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from calve.columns.fields import Fields
from calve.dead_letters.rejects import DeadLetterLocation
from calve.expression import compile_format
from calve.record.receipt import Receipt
from calve.record.target import TableRef
from calve.record.written import Nulled
from calve.route.sink_route import SinkRoute
from calve.sinks.iceberg.job import TableJob
from calve.sources.source import Split
from calve.table.definition import schema_from_columns
from calve.table.loaded import Absent, Table
from calve.task.event_buffer import EventBuffer
from calve.task.job import Job
from calve.task.task import run_task
from kit.tables import table_of

COLUMNS = [{"name": "n", "type": "long", "required": True}, {"name": "v", "type": "int"}]
OTHER = [{"name": "n", "type": "long"}, {"name": "s", "type": "string"}]


class Events:
    """A reader of batches that are there."""

    def __init__(self, batches: list[list[str]]) -> None:
        self.batches = batches

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        for events in self.batches:
            yield pa.record_batch({"event": pa.array([event.encode() for event in events], pa.binary())})


def table(folder: Path, name: str, columns: list[dict[str, Any]]) -> Table:
    return replace(table_of(schema_from_columns(columns)), identifier=name, location=str(folder / name))


def run(folder: Path, batches: list[list[str]], tables: dict[str, Table | Absent]) -> Receipt:
    sink = TableJob(
        label="iceberg",
        catalog="c",
        route=SinkRoute(compile_format("ns.${/t}")),
        tables=tables,
        dead_letters=DeadLetterLocation(str(folder / "dlq")),
        fields=Fields(exclude=frozenset({"t"})),
        infers=True,
        evolves=True,
    )
    receipt = run_task(Job("p", "run", Events(batches), (sink,), max_open_writers=3), [Split({})], 0)
    assert isinstance(receipt, Receipt), receipt
    return receipt


def written(receipt: Receipt, name: str) -> list[dict[str, Any]]:
    files = [json.loads(bytes(file)) for one in receipt.tables if one.table == name for file in one.files]
    return [row for file in files for row in pq.read_table(file["file-path"]).to_pylist()]


def event(name: str, **fields: Any) -> str:
    return json.dumps({"t": name, **fields})


@pytest.mark.parametrize("size", [7, 500, 5000], ids="batches of {}".format)
def test_each_table_gets_its_own_events_in_their_order(tmp_path: Path, size: int) -> None:
    rnd = random.Random(size)
    tables = {f"ns.a{number}": table(tmp_path, f"ns.a{number}", COLUMNS) for number in range(9)}
    tables["ns.b"] = table(tmp_path, "ns.b", OTHER)
    sent = [(rnd.choice(list(tables)), number) for number in range(1000)]
    events = [event(name.removeprefix("ns."), n=number) for name, number in sent]
    receipt = run(tmp_path, [events[start : start + size] for start in range(0, len(events), size)], tables)
    assert (receipt.misfits, receipt.rejects) == ([], [])
    for name in tables:
        assert [row["n"] for row in written(receipt, name)] == [number for to, number in sent if to == name]


@pytest.mark.parametrize(("tables", "least"), [(1, 65_536), (200, 65_536), (2000, 524_288)])
def test_a_buffer_of_many_tables_is_full_when_each_has_some_rows(tables: int, least: int) -> None:
    events = pa.table({"event": pa.array([b"{}"] * 65_536, pa.binary())})
    at = np.arange(len(events))
    shares = [(TableRef(0, f"t{number}"), pa.array(at[number::tables])) for number in range(tables)]
    buffer = EventBuffer()
    while not buffer.is_full:
        buffer.add(events, shares)
    assert buffer.rows == least


def test_a_buffer_of_many_tables_is_full_of_large_events() -> None:
    events = pa.table({"event": pa.array([bytes(1 << 20)] * 32, pa.binary())})
    buffer = EventBuffer()
    shares = [(TableRef(0, f"t{number}"), pa.array([number])) for number in range(32)]
    for _ in range(2):
        assert not buffer.is_full
        buffer.add(events, shares)
    assert buffer.is_full


def test_what_one_table_cannot_take_is_told_of_that_table_alone(tmp_path: Path) -> None:
    tables: dict[str, Table | Absent] = {f"ns.{name}": table(tmp_path, f"ns.{name}", COLUMNS) for name in "abcd"}
    tables["ns.gone"] = Absent("NO_SUCH_TABLE", "it is not there")
    events = [
        event("a", n=1, v=1),
        event("b", n="one"),
        event("c", n=2, v="much"),
        event("d", n=3, new=1.5),
        event("d", n="reject of a table that comes again"),
        event("b", n=4),
        event("gone", n=5),
        event("fresh", x=6),
        event("c", n=7, v="more"),
    ]
    receipt = run(tmp_path, [events[:3], events[3:]], tables)
    assert {one.table: one.rows for one in receipt.tables} == {"ns.a": 1, "ns.b": 1, "ns.c": 2}
    assert receipt.nulled == [Nulled("ns.c", {"v": 2}, {"v": "'much' is not a valid int"})]
    assert {name: list(codes) for name, codes in receipt.rejects[0].counts.items()} == {
        "ns.b": ["NOT_COERCIBLE"],
        "ns.gone": ["NO_SUCH_TABLE"],
    }
    misfits = {misfit.target.table: misfit.inferred for misfit in receipt.misfits}
    assert {name: list(inferred.root.fields) for name, inferred in misfits.items() if inferred} == {
        "ns.d": ["new"],
        "ns.fresh": ["x"],
    }


def test_tables_that_differ_in_a_field_id_get_files_of_their_own_ids(tmp_path: Path) -> None:
    one, two = table(tmp_path, "ns.a", COLUMNS), table(tmp_path, "ns.b", COLUMNS)
    two = replace(two, schema_json=two.schema_json.replace('"id":2', '"id":9'))
    receipt = run(tmp_path, [[event("a", n=1, v=2), event("b", n=3, v=4)]], {"ns.a": one, "ns.b": two})
    files = {each.table: json.loads(bytes(each.files[0])) for each in receipt.tables}
    assert {name: file["lower-bounds"]["keys"] for name, file in files.items()} == {"ns.a": [1, 2], "ns.b": [1, 9]}
