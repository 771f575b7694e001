"""Rows of typed files in one task: only what needs a text gets one, and everything arrives."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from calve.dead_letters.rejects import DeadLetterLocation
from calve.event import typed
from calve.expression import compile_format
from calve.record.receipt import Misfit, Receipt
from calve.record.written import Ignored
from calve.route.sink_route import SinkRoute
from calve.sinks.iceberg.job import TableJob
from calve.sources.file import rows as file_rows
from calve.sources.file.codec import FilePart
from calve.sources.file.reader import FileReader
from calve.sources.file.settings import FileSettings
from calve.sources.source import Split
from calve.table.definition import schema_from_columns
from calve.task.isolation import Excluded, Isolation, position
from calve.task.job import Job
from calve.task.task import run_task
from kit.tables import table_of

COLUMNS = [{"name": "n", "type": "long"}, {"name": "s", "type": "string"}]

FIRST = pa.table({"n": pa.array([1, 2, 1], pa.int16()), "s": ["a", None, "c"]})
FIRST_AND_NULLS = FIRST.append_column("none", pa.nulls(3))


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers `n` of all rows that get a text."""
    made: list[int] = []
    to_json = typed.to_json
    monkeypatch.setattr(typed, "to_json", lambda rows: made.extend(rows["n"].to_pylist()) or to_json(rows))
    return made


def parquet(folder: Path, name: str, rows: pa.Table) -> Path:
    pq.write_table(rows, folder / name)
    return folder / name


def run(
    folder: Path,
    files: list[Path],
    columns: list[dict[str, Any]] = COLUMNS,
    to: str = "ns.t",
    isolation: Isolation | None = None,
    metadata: tuple[str, ...] = (),
    **options: Any,
) -> Receipt:
    table = replace(table_of(schema_from_columns(columns)), identifier="ns.t", location=str(folder / "t"))
    route, dead_letters = SinkRoute(compile_format(to, metadata)), DeadLetterLocation(str(folder / "dlq"))
    sink = TableJob("iceberg", route, dead_letters, "c", {"ns.t": table} if columns else {}, **options)
    sizes = [file.stat().st_size for file in files]
    splits = [Split(asdict(FilePart(str(file), 0, size, size, 0))) for file, size in zip(files, sizes, strict=True)]
    reader = FileReader(FileSettings(path=[str(file) for file in files]))
    job = Job("p", "run", reader, (sink,), max_open_writers=3, isolation=isolation or Isolation())
    receipt = run_task(job, splits, 0)
    assert isinstance(receipt, Receipt), receipt
    return receipt


def written(receipt: Receipt) -> list[dict[str, Any]]:
    files = [json.loads(bytes(file)) for one in receipt.tables for file in one.files]
    return [row for file in files for row in pq.read_table(file["file-path"]).to_pylist()]


def by_content(receipt: Receipt) -> dict[str, list[dict[str, Any]]]:
    files = [json.loads(bytes(file)) for table in receipt.tables for file in table.files]
    return {file["content"]: pq.read_table(file["file-path"]).to_pylist() for file in files}


def types_of(misfit: Misfit) -> list[str]:
    assert misfit.inferred is None or misfit.inferred.is_declared
    return [str(field.field_type) for field in misfit.inferred.to_schema().fields] if misfit.inferred else []


def letters(receipt: Receipt) -> list[tuple[str, str]]:
    lines = [line for one in receipt.rejects for line in Path(one.path).read_text().splitlines()]
    return [(entry["code"], entry["event"]) for entry in map(json.loads, lines)]


WAYS: dict[str, tuple[dict[str, Any], dict[str, list[dict[str, Any]]], dict[str, list[str]]]] = {
    "appended": ({}, {"DATA": [*FIRST.to_pylist(), {"n": 2, "s": "d"}]}, {}),
    "written by key": (
        {"changes": True, "identifier_columns": ("n",), "upsert": True},
        {"DATA": [{"n": 1, "s": "c"}, {"n": 2, "s": "d"}], "EQUALITY_DELETES": [{"n": 1}, {"n": 2}]},
        {},
    ),
    "routed by their metadata": (
        {
            "to": 'ns.${substringBefore(substringAfter(getMetadata("file_path"), "in/"), ".parquet")}',
            "metadata": ("file_path",),
        },
        {"DATA": FIRST.to_pylist()},
        {"ns.u": []},
    ),
    "of a new table": ({"columns": [], "infers": True}, {}, {"ns.t": ["int", "string"]}),
}
"""Options of a sink, the files that it writes, and the types of the columns that tables lack."""


@pytest.mark.parametrize("way", WAYS)
def test_rows_get_no_text_when_they_are(way: str, tmp_path: Path, texts: list[int]) -> None:
    options, expected, misfits = WAYS[way]
    (tmp_path / "in").mkdir()
    second = pa.table({"n": pa.array([2], pa.int16()), "s": ["d"]})
    files = [
        parquet(tmp_path / "in", name, rows) for name, rows in (("t.parquet", FIRST_AND_NULLS), ("u.parquet", second))
    ]
    receipt = run(tmp_path, files, **options)
    assert by_content(receipt) == expected
    assert {misfit.target.table: types_of(misfit) for misfit in receipt.misfits} == misfits
    assert texts == []


def test_only_rows_that_do_not_fit_get_a_text_which_is_their_dead_letter(tmp_path: Path, texts: list[int]) -> None:
    rows = pa.table({"n": [1, None, 3], "s": pa.array([b"x", b"y", b"\xff"]).view(pa.string())})
    columns = [{"name": "n", "type": "long", "required": True}, COLUMNS[1]]
    receipt = run(tmp_path, [parquet(tmp_path, "1.parquet", rows)], columns)
    assert written(receipt) == [{"n": 1, "s": "x"}]
    assert letters(receipt)[0] == ("REQUIRED_MISSING", '{"n":null,"s":"y"}')
    assert letters(receipt)[1][0] == "MALFORMED"
    assert set(texts) == {None, 3}


def test_files_of_other_columns_and_of_other_kinds_all_arrive(tmp_path: Path) -> None:
    first = parquet(tmp_path, "1.parquet", pa.table({"n": [1], "s": ["a"]}))
    second = parquet(tmp_path, "2.parquet", pa.table({"s": pa.array(["b"]).dictionary_encode(), "n": [2]}))
    views = parquet(tmp_path, "3.parquet", pa.table({"n": [3], "s": pa.array(["c"], pa.string_view())}))
    lines = tmp_path / "4.ndjson"
    lines.write_text('{"n":4,"s":"d"}\n{"n":\n')
    broken = tmp_path / "5.parquet"
    broken.write_bytes(first.read_bytes()[:50])
    narrow = parquet(tmp_path, "6.parquet", pa.table({"n": pa.array([6], pa.int8()), "o": [0]}))
    receipt = run(tmp_path, [first, second, views, lines, broken, narrow, first])
    found = [(row["n"], row["s"]) for row in written(receipt)]
    assert found == [(1, "a"), (2, "b"), (3, "c"), (4, "d"), (6, None), (1, "a")]
    assert [code for code, _ in letters(receipt)] == ["MALFORMED", "MALFORMED"]
    assert receipt.ignored == [Ignored("ns.t", {"o": 1})]


def test_rows_that_are_routed_by_a_field_have_their_text(tmp_path: Path, texts: list[int]) -> None:
    rows = pa.table({"n": [1, 2], "s": ["t", "u"]})
    receipt = run(tmp_path, [parquet(tmp_path, "1.parquet", rows)], to="ns.${/s}")
    assert written(receipt) == [{"n": 1, "s": "t"}]
    assert texts == [1, 2]
    assert receipt.misfits[0].target == (0, "ns.u")


def test_a_new_field_of_a_file_is_a_misfit(tmp_path: Path) -> None:
    rows = pa.table({"n": [1], "new": pa.array([1.5], pa.float32())})
    receipt = run(tmp_path, [parquet(tmp_path, "1.parquet", rows)], evolves=True)
    [misfit] = receipt.misfits
    assert misfit.inferred is not None
    assert {name: node.kind.value for name, node in misfit.inferred.root.fields.items()} == {"new": "float"}


@pytest.mark.parametrize(("sink", "table"), [(None, ""), (0, "ns.t")])
def test_a_row_that_is_left_out_is_a_dead_letter_with_its_text(tmp_path: Path, sink: int | None, table: str) -> None:
    excluded = Excluded((position(0, 1), position(0, 2)), sink, table, "it fails")
    file = parquet(tmp_path, "1.parquet", pa.table({"n": [1, 2, 3]}))
    receipt = run(tmp_path, [file], isolation=Isolation(excluded=(excluded,)))
    assert [row["n"] for row in written(receipt)] == [1, 3]
    assert letters(receipt) == [("UNPROCESSABLE", '{"n":2}')]


def test_wide_rows_come_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_rows, "READ_BYTES", 1000)
    rows = pa.table({"n": range(100), "s": ["x" * 90] * 100})
    file = parquet(tmp_path, "1.parquet", rows)
    split = Split(asdict(FilePart(str(file), 0, file.stat().st_size, file.stat().st_size, 0)))
    batches = list(FileReader(FileSettings(path=str(file))).read(split))
    assert max(batch.nbytes for batch in batches) < 3000
    assert [number for batch in batches for number in batch["file_row"].to_pylist()] == list(range(1, 101))
    assert written(run(tmp_path, [file])) == rows.to_pylist()
