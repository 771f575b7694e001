"""Plain text whose first lines are no events, and files whose format Data Prepper's keys name."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from pyarrow import BufferReader

from calve.pipeline.plugins import PLUGINS
from calve.settings import SettingsErrors, parse_text
from calve.sources.file.codec import FilePart, codec_of, divisible, read_part
from calve.sources.file.codec_settings import CodecSettings, NewlineCodec
from calve.sources.file.settings import FileSettings
from sources.file.texts import table


def read(text: bytes, **options: Any) -> dict[str, list[Any]]:
    settings = FileSettings(path="f", codec=CodecSettings(newline=NewlineCodec(**options)))
    part = FilePart("f", 0, len(text), len(text), 0)
    return table(read_part(BufferReader(text), part, settings))


@pytest.mark.parametrize(
    ("options", "rows", "numbers"),
    [
        ({}, [{"message": name} for name in ("#v1", "head", "a", "b")], [1, 3, 4, 6]),
        ({"skip_lines": 1}, [{"message": name} for name in ("head", "a", "b")], [3, 4, 6]),
        ({"skip_lines": 3}, [{"message": name} for name in ("a", "b")], [4, 6]),
        ({"skip_lines": 9}, [], []),
        ({"skip_lines": 1, "header_destination": "h"}, [{"message": name, "h": "head"} for name in ("a", "b")], [4, 6]),
        ({"header_destination": "h"}, [{"message": name, "h": "#v1"} for name in ("head", "a", "b")], [3, 4, 6]),
    ],
)
def test_first_lines_are_left_out_or_are_a_header(options: Any, rows: list[Any], numbers: list[int]) -> None:
    lines = read(b"#v1\n\nhead\na\n\nb", **options)
    assert ([json.loads(text) for text in lines["event"]], lines["file_row"]) == (rows, numbers)
    assert lines["malformed"] == [None] * len(rows)


def test_a_line_that_is_no_text_is_rejected_behind_a_header() -> None:
    lines = read(b"head\n\xff\xfe\na", header_destination="h")
    assert lines["malformed"] == ["The line is not UTF-8", None]
    assert json.loads(lines["event"][1]) == {"message": "a", "h": "head"}


def test_one_task_reads_a_file_with_a_beginning() -> None:
    plain = CodecSettings(newline=NewlineCodec())
    assert divisible(plain, "none")
    assert not divisible(replace(plain, newline=NewlineCodec(skip_lines=1)), "none")
    assert not divisible(replace(plain, newline=NewlineCodec(header_destination="h")), "none")


@pytest.mark.parametrize(
    ("options", "codec"),
    [
        ({"format_": "plain"}, "newline"),
        ({"format_": "json"}, "json"),
        ({"format_": "json", "tail": True}, "ndjson"),
    ],
)
def test_the_format_of_data_prepper_is_a_codec(options: Any, codec: str) -> None:
    chosen = codec_of("x.csv", FileSettings(path="x.csv", **options))
    assert chosen is not None
    assert chosen.name == codec


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("format: json, codec: {csv: {}}", "cannot be combined with codec"),
        ("tail: true, codec: {newline: {skip_lines: 1}}", "are for whole files"),
    ],
)
def test_options_that_contradict_each_other(options: str, message: str) -> None:
    text = f"p: {{source: {{file: {{path: a.log, {options}}}}}, sink: [{{iceberg: {{table_identifier: a.b}}}}]}}"
    with pytest.raises(SettingsErrors, match=message):
        parse_text(text, PLUGINS)
