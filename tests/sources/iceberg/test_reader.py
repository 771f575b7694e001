"""Rows of a spool in one task: what a mirror writes needs no text."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema

from calve.dead_letters.rejects import DeadLetterLocation
from calve.event import typed
from calve.event.columns import TYPED
from calve.event.typed import with_text
from calve.expression import compile_format
from calve.record.receipt import Receipt
from calve.route.by_table import ByTable
from calve.route.sink_route import SinkRoute
from calve.sinks.iceberg.job import TableJob
from calve.sources.iceberg.metadata import METADATA
from calve.sources.iceberg.reader import IcebergReader
from calve.sources.iceberg.spool import Spools
from calve.sources.source import Reader, SourceTable, Split
from calve.state.local_folder import LocalFolder
from calve.table.definition import schema_from_columns
from calve.task.job import Job
from calve.task.task import run_task
from kit.tables import table_of

COLUMNS = [
    {"name": "id", "type": "long"},
    {"name": "price", "type": "decimal(9, 2)"},
    {"name": "at", "type": "timestamptz"},
]
AT = pa.timestamp("us", "UTC")
LAST_YEAR, AFTER = dt.datetime(9999, 1, 1, tzinfo=dt.UTC), pa.scalar(253_402_300_800_000_000, AT)
WORDS = ["INSERT", "UPDATE_BEFORE", "UPDATE_AFTER", "DELETE", "INSERT"]


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The `id` of all rows that get a text."""
    made: list[int] = []
    to_json = typed.to_json
    monkeypatch.setattr(
        typed, "to_json", lambda rows, **more: made.extend(rows["id"].to_pylist()) or to_json(rows, **more)
    )
    return made


def spool(folder: Path, ids: list[int], moments: pa.Array) -> list[Split]:
    rows = pa.table({"id": ids, "price": pa.array([Decimal("1.50")] * len(ids), pa.decimal128(9, 2)), "at": moments})
    given = {name: pa.nulls(len(ids), kind) for name, kind in METADATA.items()}
    given |= {"iceberg_operation": pa.array(WORDS), "iceberg_table_name": pa.array(["shop.orders"] * len(ids))}
    (folder / "s").mkdir(parents=True)
    pq.write_table(pa.table({TYPED: rows.to_struct_array(), **given}), folder / "s" / "part-0")
    about = SourceTable("shop.orders", "u", schema().model_dump_json())
    (folder / "s" / "table.json").write_text(json.dumps(asdict(about)))
    return [
        Split({"spool": part.spool, "part": part.name}, part.size_bytes)
        for part in Spools(LocalFolder(folder)).parts("s")
    ]


def schema() -> Schema:
    return schema_from_columns(COLUMNS)


def run(folder: Path, reader: Reader, splits: list[Split], table: str = "ns.shop.orders") -> dict[str, Any]:
    place = replace(table_of(schema()), identifier=table, location=str(folder / "t"))
    names = [compile_format(f'${{getMetadata("{name}")}}', METADATA) for name in METADATA]
    route = SinkRoute(compile_format('ns.${getMetadata("iceberg_table_name")}', METADATA), operation=ByTable(names[0]))
    letters = DeadLetterLocation(str(folder / "dlq"))
    by_key = {"changes": True, "identifier_columns": ("id",), "on_type_mismatch": "dlq", "evolves": True}
    sink = TableJob("iceberg", route, letters, "c", {table: place}, **by_key)
    receipt = run_task(Job("p", "run", reader, (sink,), max_open_writers=3), splits, 0)
    assert isinstance(receipt, Receipt), receipt
    return receipt


def written(receipt: Receipt) -> dict[str, list[dict[str, Any]]]:
    files = [json.loads(bytes(file)) for one in receipt.tables for file in one.files]
    return {file["content"]: pq.read_table(file["file-path"]).to_pylist() for file in files}


def letters(receipt: Receipt) -> list[tuple[str, str]]:
    lines = [line for one in receipt.rejects for line in Path(one.path).read_text().splitlines()]
    return [(entry["code"], entry["event"]) for entry in map(json.loads, lines)]


class ByText:
    """Gives each row of another reader as its text."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        for batch in self._reader.read(split):
            yield from with_text(pa.Table.from_batches([batch])).to_batches()


def test_changes_are_applied_to_a_mirror_without_a_text(tmp_path: Path, texts: list[int]) -> None:
    moments = pa.array([LAST_YEAR, None, None, LAST_YEAR, None], AT)
    splits = spool(tmp_path / "spools", [1, 2, 2, 3, 4], moments)
    assert splits[0].size_bytes > 0
    receipt = run(tmp_path, IcebergReader(str(tmp_path / "spools")), splits)
    found = written(receipt)
    price = Decimal("1.50")
    assert found["DATA"] == [
        {"id": 1, "price": price, "at": LAST_YEAR},
        {"id": 2, "price": price, "at": None},
        {"id": 4, "price": price, "at": None},
    ]
    assert sorted(row["id"] for row in found["EQUALITY_DELETES"]) == [2, 3]
    assert texts == []
    by_text = run(tmp_path / "text", ByText(IcebergReader(str(tmp_path / "spools"))), splits)
    assert written(by_text) == found


def test_a_dead_letter_has_decimals_as_strings(tmp_path: Path, texts: list[int]) -> None:
    moments = pa.array([AFTER.value, None, None, None, None], pa.int64()).cast(AT)
    receipt = run(
        tmp_path, IcebergReader(str(tmp_path / "spools")), spool(tmp_path / "spools", [1, 2, 2, 3, 4], moments)
    )
    assert letters(receipt) == [("NOT_COERCIBLE", '{"id":1,"price":"1.50","at":"10000-01-01T00:00:00Z"}')]
    assert set(texts) == {1}
