from __future__ import annotations

import gzip
import io
import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from calve.errors import SourceError
from calve.sources.file import sample
from calve.sources.file.codec_settings import CodecSettings, NewlineCodec
from calve.sources.file.sample import read_bytes, sample_lines, shown_name
from calve.sources.file.settings import FileSettings

FILES = {
    "csv": [{"a": "1", "b": "x"}],
    "parquet": [{"a": 1, "at": "1970-01-01T00:00:00Z"}],
    "log": [{"message": "one"}],
}
TEXT = b'{"a": 1}\n\r\n\n{"a": 2}'


def read_sample(name: str, settings: FileSettings | None = None) -> pa.Table:
    return sample_lines(read_bytes(name), shown_name(name), settings)


def test_lines_keep_their_numbers_and_blank_ones_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(TEXT)
    found = read_sample(str(tmp_path / "a"))
    assert found["event"].to_pylist() == [b'{"a": 1}', b'{"a": 2}']
    assert found["file_row"].to_pylist() == [1, 4]


def test_a_compressed_sample_and_stdin_are_read_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.ndjson").write_bytes(gzip.compress(TEXT))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(TEXT)))
    assert read_sample(str(tmp_path / "a.ndjson"))["event"] == read_sample("-")["event"]


def test_a_sample_has_the_codec_of_the_source_or_of_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = FileSettings(path="in/*")
    (tmp_path / "a.csv").write_text("a,b\n1,x\n")
    pq.write_table(pa.table({"a": [1], "at": pa.array([0], pa.timestamp("us", "UTC"))}), tmp_path / "a.parquet")
    (tmp_path / "a.log").write_text("one\n")
    found = {name: read_sample(str(tmp_path / f"a.{name}"), files)["event"].to_pylist() for name in FILES}
    assert {name: [json.loads(event) for event in events] for name, events in found.items()} == FILES
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"one\n")))
    lines = replace(files, codec=CodecSettings(newline=NewlineCodec()))
    assert read_sample("-", lines)["event"].to_pylist() == [b'{"message":"one"}']


def test_no_events_are_an_empty_table(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    assert len(read_sample(str(tmp_path / "a"))) == 0


def test_what_is_no_sample_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(TEXT)
    monkeypatch.setattr(sample, "SAMPLE_BYTES", len(TEXT) - 1)
    with pytest.raises(SourceError, match="has more than"):
        read_sample(str(tmp_path / "a"))
    with pytest.raises(SourceError, match="is a directory"):
        read_sample(str(tmp_path))
