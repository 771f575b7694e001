"""One line for a load, one call for rows: pipelines like others, which are run once."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pytest
from click.testing import CliRunner

from calve import write_rows
from calve.cli.main import calve as command
from calve.engine import session
from calve.errors import CalveError, SettingsError
from calve.operate.quick import load_pipeline, pipeline_name
from calve.operate.write_rows import WrittenBatches, as_table
from calve.pipeline.plugins import PLUGINS
from calve.settings import parse_text
from kit.running import Calve

ROWS = [{"id": 1, "total": 2.5}, {"id": 2, "total": None}]


@pytest.mark.parametrize(
    ("arguments", "codec"),
    [
        (("in/*.ndjson",), None),
        (("in/*.csv",), {"csv": {"infer_types": True}}),
        (("in/a.tsv.gz",), {"csv": {"infer_types": True, "delimiter": "\t"}}),
        (
            ("in/*.txt", "--delimiter", ";", "--encoding", "latin-1"),
            {"csv": {"infer_types": True, "delimiter": ";", "encoding": "latin-1"}},
        ),
    ],
)
def test_the_pipeline_of_a_load_is_printed_as_yaml_that_calve_takes(arguments: tuple[str, ...], codec: object) -> None:
    files, *more = arguments
    done = CliRunner().invoke(command, ["load", files, "shop.orders", "--key", "id", *more, "--print"])
    assert done.exit_code == 0, done.output
    (parsed,) = parse_text(done.stdout, PLUGINS).pipelines
    assert parsed.name == "load-shop-orders"
    given = parsed.source.value.codec
    assert (given is None) is (codec is None)
    if codec:
        assert {name: getattr(given.csv, name) for name in codec["csv"]} == codec["csv"]  # type: ignore[index]


@pytest.mark.parametrize(("character", "written"), [(";", ";"), ("\t", r"\t"), ("|", "|")])
def test_files_whose_cells_have_another_delimiter_are_not_loaded_as_one_column(
    character: str, written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text(f"id{character}city\n1{character}Bern\n")
    done = CliRunner().invoke(command, ["load", "*.csv", "shop.orders"])
    assert done.exit_code == 2
    assert "nothing was loaded" in done.output
    assert f"calve load '*.csv' shop.orders --delimiter '{written}'" in done.output
    again = CliRunner().invoke(command, ["load", "*.csv", "shop.orders", "--delimiter", written, "--print"])
    assert parse_text(again.stdout, PLUGINS).pipelines[0].source.value.codec.csv.delimiter == character
    assert not Path("calve-state").exists()
    assert CliRunner().invoke(command, ["load", "*.csv", "shop.orders", "--delimiter", ",", "--print"]).exit_code == 0


def test_rows_are_mappings_or_anything_with_arrows_stream() -> None:
    assert as_table(ROWS).to_pylist() == ROWS
    assert as_table(pa.table({"id": [1]})).to_pylist() == [{"id": 1}]
    with pytest.raises(SettingsError, match="no table"):
        as_table(5)


def test_a_batch_that_a_killed_program_left_stays_as_it_was(tmp_path: Path) -> None:
    batches = WrittenBatches(tmp_path, "shop.orders")
    batches.add("../a/b", as_table(ROWS))
    batches.add("../a/b", as_table([{"id": 3}]))
    (file,) = batches.folder.iterdir()
    assert file.name == "b-..%2Fa%2Fb.parquet"
    assert not batches.has("../a/b")
    batches.committed("../a/b")
    batches.committed("../a/b")
    assert batches.has("../a/b")
    assert [each.name for each in batches.folder.iterdir()] == ["b-..%2Fa%2Fb.committed"]


def test_tables_share_no_pipeline_and_so_no_memory_of_files() -> None:
    tables = [
        "a.b_c",
        "a.b-c",
        "a.b.c",
        "a_b.c",
        "a.b c",
        "a.B_c",
        "\u5e97.\u6ce8\u6587",
        "\u5e97.\u9867\u5ba2",
        f"a.{'b' * 200}",
    ]
    names = [pipeline_name("load", table) for table in tables]
    assert len(set(names)) == len(tables)
    assert names[0] == "load-a-b_c"
    for table, name in zip(tables, names, strict=True):
        [pipeline] = parse_text(json.dumps(load_pipeline("*.csv", table)), PLUGINS).pipelines
        assert pipeline.name == name


@pytest.mark.spark
def test_files_and_rows_are_in_their_tables_once(
    calve: Callable[[str], Calve], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = calve("")
    monkeypatch.chdir(job.folder)
    Path("a.csv").write_text("id,total\n1,2.5\n")
    for _ in range(2):
        done = job.call("load", "*.csv", "shop.loaded")
        assert done.exit_code == 0, done.output
    assert job.rows("shop.loaded").to_pylist() == [{"id": 1, "total": 2.5}]
    with mock.patch.object(session, "stop"):
        batches = [(ROWS, "x"), (ROWS, "x"), ([{"id": 3}], "y")]
        assert [write_rows(rows, "shop.rows", batch_id=name) for rows, name in batches] == [2, 0, 1]
        with pytest.raises(CalveError, match="NOT_COERCIBLE 1"):  # never NULL unless somebody asks for it
            write_rows([{"id": "four"}, {"id": "5"}], "shop.rows")
    assert sorted(job.rows("shop.rows")["id"].to_pylist()) == [1, 2, 3, 5]
