"""Which targets are emptied when some tables of a source are loaded again, and what else the parts of a pipeline decide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from calve.pipeline.batch_size import FIRST_BYTES
from calve.pipeline.pipeline_parts import PipelineParts
from calve.pipeline.plugins import PLUGINS
from calve.pipeline.tables import PipelineTables
from calve.record.target import BranchRef, TableRef
from calve.settings import parse_text
from calve.sinks.iceberg.tables import IcebergTables
from calve.sinks.sink import CommitSettings
from calve.sources.source import Planned, SourceTable, Split
from calve.state.local_folder import LocalFolder

DATABASE = "postgres: {host: h, database: d, username: u}"
FILES = "file: {path: /nowhere/*.ndjson}"
SINK = "iceberg: {table_identifier: a.b, auto_create: true}"
ORDERS, ITEMS = SourceTable("shop.orders", "1", "{}"), SourceTable("shop.items", "2", "{}")


class Tables:
    """The tables of a sink whose targets depend on the source table alone, as far as they are listed."""

    catalogs: Mapping[str, Any] = {}
    commits, always_shuffles, max_open_writers = CommitSettings(0, 0), False, 1

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def targets_of(self, tables: Sequence[SourceTable]) -> list[BranchRef]:
        return [BranchRef("c", self._names[one.name], "main") for one in tables if one.name in self._names]


def targets(*sinks: Mapping[str, str]) -> tuple[list[str], bool]:
    opened: list[Any] = [SimpleNamespace(tables=Tables(names)) for names in sinks]
    own, is_complete = PipelineTables(opened).own_targets([ORDERS], [ITEMS])
    return [target.table for target in own], is_complete


def test_a_target_with_rows_of_the_tables_alone_is_emptied() -> None:
    assert targets({"shop.orders": "a.orders", "shop.items": "a.items"}) == (["a.orders"], True)


def test_a_target_with_rows_of_other_tables_is_not_emptied_whatever_sink_writes_them() -> None:
    assert targets({"shop.orders": "a.all", "shop.items": "a.all"}) == ([], False)
    both = {"shop.orders": "a.orders", "shop.items": "a.items"}, {"shop.items": "a.orders"}
    assert targets(*both) == ([], False)


def test_a_target_that_events_select_is_not_emptied() -> None:
    assert targets({"shop.items": "a.items"}) == ([], False)


class Files:
    """A source with some events."""

    def plan(self, position: None, max_bytes: int) -> Planned:
        return Planned([Split({}, max_bytes)])


@pytest.mark.parametrize(
    ("source", "table", "expected"),
    [
        (FILES, "a.there", (1, 0)),
        (FILES, "a.new", (0, 1)),
        (FILES, "a.${/t}", (1, 2)),
        (DATABASE, "a.${/t}", (0, 0)),  # its tables are made from its catalog, before the first batch is read
    ],
)
def test_a_survey_tells_how_many_tables_of_the_first_events_exist(
    monkeypatch: pytest.MonkeyPatch, source: str, table: str, expected: tuple[int, int]
) -> None:
    sink = f"iceberg: {{table_identifier: '{table}', auto_create: true}}"
    yaml = f"p:\n  source:\n    {source}\n  sink:\n    - {sink}\n    - opensearch: {{hosts: [http://h], index: i}}\n"
    [settings] = parse_text(yaml, PLUGINS).pipelines
    catalog = SimpleNamespace(properties={}, name="lakehouse")
    parts = PipelineParts(settings, LocalFolder(Path("state")), lambda properties: ("lakehouse", catalog))
    parts.source = cast(Any, Files())
    monkeypatch.setattr(IcebergTables, "find", lambda self, name: name == "a.there")
    read: list[int] = []

    def tables(planned: Planned) -> set[TableRef]:
        read.extend(split.size_bytes for split in planned.splits)
        return {TableRef(0, "a.there"), TableRef(0, "a.new"), TableRef(0, "a.newer"), TableRef(1, "i")}

    assert parts.survey(None, tables) == expected
    assert read == ([FIRST_BYTES] if sum(expected) > 1 else [])


@pytest.mark.parametrize(
    ("key", "may_grow"), [("", True), (", max_batch_bytes: 1mb", False), (", upsert: true", False)]
)
def test_only_batches_of_appends_whose_size_is_not_set_may_grow(key: str, may_grow: bool) -> None:
    sink = f"iceberg: {{table_identifier: a.b, auto_create: true, identifier_columns: [id]{key}}}"
    [settings] = parse_text(f"p:\n  source:\n    {FILES}\n  sink:\n    - {sink}\n", PLUGINS).pipelines
    catalog = SimpleNamespace(properties={}, name="lakehouse")
    assert (
        PipelineParts(settings, LocalFolder(Path("state")), lambda properties: ("lakehouse", catalog)).may_grow
        is may_grow
    )


def test_a_sink_decides_nothing_about_the_commits_of_tables_that_it_never_writes() -> None:
    held = "iceberg: {table_identifier: 'a.[held]', auto_create: true, event_time: at, commit_on: watermark}"
    free = "iceberg: {table_identifier: a.free, auto_create: true, commit_interval: 2s, dlq: {table: a.letters}}"
    [settings] = parse_text(f"p:\n  source:\n    {FILES}\n  sink:\n    - {held}\n    - {free}\n", PLUGINS).pipelines
    catalog = SimpleNamespace(properties={}, name="lakehouse")
    parts = PipelineParts(settings, LocalFolder(Path("state")), lambda properties: ("lakehouse", catalog))
    commits = parts.tables.commits
    tables = ("a.[held]", "a.free", "a.letters")
    assert [commits.seconds(table) for table in tables] == [3600, 2, 2]
    assert [commits.waits_for_watermark(table) for table in tables] == [True, False, False]
    assert commits.is_any_by_watermark
