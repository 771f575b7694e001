"""ORC files: the rows that were written, with their types; a damaged file yields its whole stripes and a reason."""

from __future__ import annotations

import datetime as dt
import hashlib
import io
import json
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc

from calve.columns.infer import infer
from calve.event.columns import MALFORMED, TYPED
from calve.sources.file.codec import FilePart, divisible, read_part
from calve.sources.file.codec_settings import CodecSettings, OrcCodec
from calve.sources.file.orc import _DAMAGED, _watched
from calve.sources.file.settings import FileSettings

ROWS = 5000
AT = dt.datetime(2026, 1, 2, 3, 4, 5, 678901)
TABLE = pa.table(
    {
        "id": pa.array(range(ROWS)),
        "small": pa.array([number % 100 for number in range(ROWS)], pa.int8()),
        "name": pa.array([None if number % 3 else f"n\u00e9{number}" for number in range(ROWS)]),
        "price": pa.array([Decimal(number) / 100 for number in range(ROWS)], pa.decimal128(12, 2)),
        "at": pa.array([AT] * ROWS, pa.timestamp("us")),
        "instant": pa.array([AT] * ROWS, pa.timestamp("us", "UTC")),
        "day": pa.array([AT.date()] * ROWS),
        "raw": pa.array([b"\xff"] * ROWS),
        "tags": pa.array([["a"] * (number % 3) for number in range(ROWS)]),
        "counts": pa.array([[("a", number)] for number in range(ROWS)], pa.map_(pa.string(), pa.int64())),
        "place": pa.array([{"city": "x", "zip": number} for number in range(ROWS)]),
    }
)
TYPES = {
    "id": "long",
    "small": "int",
    "name": "string",
    "price": "decimal(12, 2)",
    "at": "timestamp",
    "instant": "timestamptz",
    "day": "date",
    "raw": "binary",
    "tags": "list<string>",
    "counts": "map<string, long>",
}


def _file(table: pa.Table, compression: str = "zstd", stripe_bytes: int = 64 << 20) -> bytes:
    out = io.BytesIO()
    orc.write_table(table, out, compression=compression, stripe_size=stripe_bytes)
    return out.getvalue()


def _read(data: bytes, name: str = "a.orc") -> tuple[pa.Table, list[str]]:
    """The rows of a file, and the reasons of rejects."""
    part = FilePart(name, 0, len(data), len(data), 0)
    batches = list(read_part(pa.BufferReader(data), part, FileSettings(path=name)))
    rows = [batch for batch in batches if TYPED in batch.schema.names]
    reasons = [batch[MALFORMED].to_pylist() for batch in batches if MALFORMED in batch.schema.names]
    return pa.Table.from_batches(rows) if rows else pa.table({TYPED: []}), [each for some in reasons for each in some]


@pytest.mark.parametrize("compression", ["uncompressed", "zlib", "snappy", "lz4", "zstd"])
def test_the_rows_of_a_file_are_those_that_were_written(compression: str) -> None:
    found, reasons = _read(_file(TABLE, compression, 20_000))
    assert reasons == []
    assert found[TYPED].to_pylist() == TABLE.to_pylist()
    assert found["file_row"].to_pylist() == list(range(1, ROWS + 1))


def test_a_new_table_has_the_types_of_the_file() -> None:
    schema = infer(_read(_file(TABLE))[0]).to_schema()
    assert {name: str(schema.find_type(name)) for name in TYPES} == TYPES
    assert [str(schema.find_type(f"place.{name}")) for name in ("city", "zip")] == ["string", "long"]


def test_parts_of_a_microsecond_are_text_with_all_digits() -> None:
    nanoseconds = pa.table({"at": pa.array([1], pa.timestamp("ns"))})
    assert str(infer(_read(_file(nanoseconds))[0]).to_schema().find_type("at")) == "string"


@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
def test_a_file_that_was_cut_off_is_one_reject(share: float) -> None:
    whole = _file(TABLE)
    found, [reason] = _read(whole[: int(len(whole) * share)])
    assert len(found) == 0
    assert "cannot be read as ORC (cut off?)" in reason


def test_another_format_is_one_reject() -> None:
    found, [reason] = _read(json.dumps([{"a": 1}] * 100).encode())
    assert (len(found), "The file a.orc cannot be read as ORC" in reason) == (0, True)


def test_a_stripe_that_cannot_be_read_names_its_column_and_leaves_the_others() -> None:
    dates = [dt.datetime(9999, 12, 31) if number == 1500 else AT for number in range(ROWS)]
    texts = [f"{number:0100}" for number in range(ROWS)]
    late = pa.table({"id": range(ROWS), "valid_to": pa.array(dates, pa.timestamp("us")), "text": texts})
    data = _file(late, "uncompressed", 50_000)
    stripes = orc.ORCFile(pa.BufferReader(data)).nstripes
    found, [reason] = _read(data)
    assert "in the column valid_to: " in reason
    assert "out of range" in reason
    assert stripes > 2
    numbers = found["file_row"].to_pylist()
    assert [row["id"] + 1 for row in found[TYPED].to_pylist()] == numbers
    assert 1501 not in numbers
    assert numbers[-1] == ROWS


def test_a_file_without_a_readable_column_ends_there() -> None:
    late = pa.table({"valid_to": pa.array([dt.datetime(9999, 12, 31)], pa.timestamp("us"))})
    found, reasons = _read(_file(late))
    assert len(found) == 0
    assert [reason.startswith("The file a.orc cannot be read") for reason in reasons] == [True, True]


def test_a_union_is_refused_by_name() -> None:
    types = pa.array([0, 1], pa.int8())
    union = pa.UnionArray.from_sparse(types, [pa.array([1, None]), pa.array([None, "a"])])
    assert "the column u with a union" in _read(_file(pa.table({"id": [1, 2], "u": union})))[1][0]


def test_a_storage_that_fails_rejects_nothing() -> None:
    class Failing(io.BytesIO):
        reads = 0

        def read(self, *size: Any) -> bytes:
            self.reads += 1
            if self.reads > 2:
                raise OSError("the storage is away")
            return super().read(*size)

    data = _file(TABLE)
    file = pa.PythonFile(Failing(data), "r")
    with pytest.raises(OSError, match="the storage is away"):
        list(read_part(file, FilePart("a.orc", 0, len(data), len(data), 0), FileSettings(path="a.orc")))


def test_a_file_that_crashed_its_task_yields_the_rows_before_and_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = _file(TABLE, "uncompressed", 20_000)
    assert orc.ORCFile(pa.BufferReader(data)).nstripes > 1
    (tmp_path / "data").write_bytes(data)
    crashing = (
        "import os, sys; from pyarrow import orc; from sources.file.test_orc import _read\n"
        "orc.ORCFile.read_stripe = lambda *_: os.kill(os.getpid(), 9)\n"
        "_read(open(sys.argv[1], 'rb').read())"
    )
    command, tests = [sys.executable, "-c", crashing, str(tmp_path / "data")], Path(__file__).parents[2]
    assert subprocess.run(command, cwd=tests, env={**os.environ, "TMPDIR": str(tmp_path)}).returncode == -9
    (tmp_path / "orc_check.py").write_text(
        "import os, sys; sys.stdin.buffer.read(); print(0, 1, flush=True); os.kill(os.getpid(), 11)"
    )
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr("calve.sources.file.orc.__file__", str(tmp_path / "orc.py"))
        found, [reason] = _read(data)
    assert len(found) == orc.ORCFile(pa.BufferReader(data)).read_stripe(0).num_rows
    assert reason == f"The file a.orc cannot be read after row {len(found)}: {_DAMAGED}"
    assert _read(data)[1] == []  # the mark is gone


def test_a_task_that_was_only_killed_reads_the_whole_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = _file(TABLE)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with _watched("a.orc", len(data)):
        [folder] = tmp_path.iterdir()
        [mark] = folder.iterdir()
    mark.touch()
    found, reasons = _read(data)
    assert (len(found), reasons, list(folder.iterdir())) == (ROWS, [], [])


def test_a_link_or_an_open_folder_where_marks_would_be_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim, place = tmp_path / "victim", tmp_path / f"calve-orc-{os.getuid()}"
    victim.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    data = _file(TABLE)
    place.symlink_to(victim)
    with _watched("a.orc", len(data)) as has_crashed:
        assert has_crashed, "it is checked first"
        assert list(victim.iterdir()) == []
    assert len(_read(data)[0]) == ROWS
    place.unlink()
    place.mkdir()
    place.chmod(0o777)
    with _watched("a.orc", len(data)) as has_crashed:
        assert has_crashed
        assert list(place.iterdir()) == []


def test_a_link_of_another_user_in_the_temporary_folder_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, victim = _file(TABLE), tmp_path / "victim"
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    name = hashlib.sha256(f"a.orc {len(data)}".encode()).hexdigest()[:32]
    (tmp_path / f"calve-orc-{name}").symlink_to(victim)
    with _watched("a.orc", len(data)):
        assert not victim.exists()


def test_one_task_reads_a_file() -> None:
    assert not divisible(CodecSettings(orc=OrcCodec()), "none")
