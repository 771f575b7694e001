from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.sql.types import (
    ArrayType,
    DecimalType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    VariantType,
    YearMonthIntervalType,
)

from calve.cli.main import calve
from calve.errors import PositionLostError, SettingsError, SourceError
from calve.sources.source import Split
from calve.sources.spark.frames import Frames
from calve.sources.spark.settings import SparkSettings
from calve.sources.spark.source import FrameBatch, SparkSource
from calve.state.local_folder import LocalFolder


def epoch(number: int, query: str = "q") -> FrameBatch:
    return FrameBatch(SimpleNamespace(), {"query": query, "epoch": number})


def started(folder: Path, batch: FrameBatch, position: Any, pending: Any = (), **settings: Any) -> SparkSource:
    source = SparkSource(SparkSettings(**settings), LocalFolder(folder), "orders")
    source._frames = SimpleNamespace(
        write=lambda name, frame: [Split({"frame": name, "part": "p"}, 1)], keep_only=lambda frames: None
    )
    source.offer(batch)
    source.start(json.loads(json.dumps(position)), True, pending)
    return source


def test_a_batch_of_a_stream_is_taken_once_whether_it_waits_for_its_commit_or_is_committed(tmp_path: Path) -> None:
    source = started(tmp_path, epoch(0), None)
    planned = source.plan(None, 1)
    assert planned.position == {"query": "q", "epoch": 0}
    assert source.plan(planned.position, 1) is None
    assert not source.is_committed
    source.acknowledge(planned)
    assert source.is_committed
    again = started(tmp_path, epoch(0), planned.position, [planned])
    assert again.plan(planned.position, 1) is None
    assert not again.is_committed
    again.acknowledge(planned)
    assert again.is_committed
    assert started(tmp_path, epoch(0), {"query": "q", "epoch": 3}).is_committed
    assert started(tmp_path, epoch(4), {"query": "q", "epoch": 3}).plan({"query": "q", "epoch": 3}, 1)


def test_a_named_batch_is_taken_once_even_after_others(tmp_path: Path) -> None:
    first = FrameBatch(SimpleNamespace(), {"batch": "ä/" * 500}, is_named=True)
    source = started(tmp_path, first, None)
    source.acknowledge(source.plan(None, 1))
    assert started(tmp_path, first, {"batch": "other"}).is_committed
    assert not started(tmp_path, FrameBatch(SimpleNamespace(), {"batch": "third"}), {"batch": "other"}).is_committed


@pytest.mark.parametrize("is_named", [True, False])
def test_a_batch_that_failed_and_was_committed_with_the_next_one_is_taken_once(tmp_path: Path, is_named: bool) -> None:
    failed = FrameBatch(SimpleNamespace(), {"batch": "failed"}, is_named)
    pending = started(tmp_path, failed, None).plan(None, 1)
    following = started(tmp_path, FrameBatch(SimpleNamespace(), {"batch": "next"}), pending.position, [pending])
    following.acknowledge(pending)
    assert not following.is_committed
    following.acknowledge(following.plan(pending.position, 1))
    assert following.is_committed
    again = FrameBatch(SimpleNamespace(), {"batch": "failed"}, is_named=True)
    assert started(tmp_path, again, {"batch": "next"}).is_committed


@pytest.mark.parametrize(
    ("batch", "said"),
    [
        (epoch(0, "other"), "the checkpoint was deleted or replaced, or two streams write through one pipeline"),
        (epoch(9), "those between never came"),
    ],
)
def test_a_stream_that_does_not_continue_is_refused_unless_the_settings_accept_it(
    tmp_path: Path, batch: FrameBatch, said: str
) -> None:
    position = {"query": "q", "epoch": 3}
    with pytest.raises(PositionLostError, match=said) as error:
        started(tmp_path, batch, position)
    assert "on_lost_position: reload" in error.value.hint
    assert started(tmp_path, batch, position, on_lost_position="reload").plan(position, 1)


def test_a_frame_without_a_commit_is_computed_again_and_no_older_one_stays(tmp_path: Path) -> None:
    (tmp_path / "frames" / "b-q-0").mkdir(parents=True)
    (tmp_path / "frames" / "b-q-0" / "parts.json").write_text("[]")
    source = SparkSource(SparkSettings(), LocalFolder(tmp_path), "orders")
    source.offer(epoch(1))
    source.start({"query": "q", "epoch": 0}, True)
    assert not list(tmp_path.glob("frames/*/parts.json"))


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (("v", VariantType()), "The column v of the DataFrame has the type variant"),
        (("v", ArrayType(MapType(StringType(), VariantType()))), "variant"),
        (("s", StructType([])), "The column s of the DataFrame has the type struct<>"),
        (("i", YearMonthIntervalType()), "interval year to month"),
        (("n", LongType()), "two columns of the name 'n'"),
    ],
)
def test_columns_that_do_not_reach_python_unchanged_are_refused_before_spark_computes(
    tmp_path: Path, column: Any, said: str
) -> None:
    schema = StructType([StructField("n", DecimalType(9, 2)), StructField(*column)])
    with pytest.raises(SourceError, match=said):
        Frames(LocalFolder(tmp_path), {}).write("b-1", SimpleNamespace(schema=schema))


def test_calve_run_refuses_a_pipeline_whose_rows_a_program_has(tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text("orders:\n  source: {spark: {}}\n  sink: [{iceberg: {table_identifier: a.b}}]\n")
    ran = CliRunner().invoke(calve, ["run", str(file), "--once", "--state", str(tmp_path / "state")])
    assert ran.exit_code != 0
    with pytest.raises(SettingsError, match="takes rows from a program"):
        SparkSource(SparkSettings(), LocalFolder(tmp_path), "orders").start(None, True)
