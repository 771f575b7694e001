"""Which targets are emptied when some tables of a source are loaded anew, and what else the parts of a pipeline decide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from calve.pipeline.plugins import PLUGINS
from calve.pipeline.wiring import Wiring, own_targets
from calve.record.target import BranchRef
from calve.settings import parse_text
from calve.sources.source import SourceTable

DATABASE = "postgres: {host: h, database: d, username: u}"
FILES = "file: {path: /nowhere/*.ndjson}"
SINK = "iceberg: {table_identifier: a.b, auto_create: true}"
ORDERS, ITEMS = SourceTable("shop.orders", "1", "{}"), SourceTable("shop.items", "2", "{}")


class Tables:
    """The tables of a sink whose targets depend on the source table alone, as far as they are listed."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def targets_of(self, tables: Sequence[SourceTable]) -> list[BranchRef]:
        return [BranchRef("c", self._names[one.name], "main") for one in tables if one.name in self._names]


def targets(*sinks: Mapping[str, str]) -> tuple[list[str], bool]:
    made: list[Any] = [Tables(names) for names in sinks]
    found, is_complete = own_targets(made, [ORDERS], [ITEMS])
    return [one.table for one in found], is_complete


def test_a_target_with_rows_of_the_tables_alone_is_emptied() -> None:
    assert targets({"shop.orders": "a.orders", "shop.items": "a.items"}) == (["a.orders"], True)


def test_a_target_with_rows_of_other_tables_is_not_emptied_whatever_sink_writes_them() -> None:
    assert targets({"shop.orders": "a.all", "shop.items": "a.all"}) == ([], False)
    both = {"shop.orders": "a.orders", "shop.items": "a.items"}, {"shop.items": "a.orders"}
    assert targets(*both) == ([], False)


def test_a_target_that_events_select_is_not_emptied() -> None:
    assert targets({"shop.items": "a.items"}) == ([], False)


@pytest.mark.parametrize(("source", "infers"), [(DATABASE, False), (FILES, True)])
def test_only_a_batch_that_is_read_twice_to_make_tables_is_a_small_one(source: str, infers: bool) -> None:
    """The tables of a database are made from its catalog, before the first batch is read."""
    [settings] = parse_text(f"p:\n  source:\n    {source}\n  sink:\n    - {SINK}\n", PLUGINS).pipelines
    catalog = SimpleNamespace(properties={}, name="lakehouse")
    assert Wiring(settings, Path("state"), lambda properties: ("lakehouse", catalog)).infers is infers


@pytest.mark.parametrize(
    ("key", "may_grow"), [("", True), (", max_batch_bytes: 1mb", False), (", upsert: true", False)]
)
def test_only_batches_of_appends_whose_size_is_not_set_may_grow(key: str, may_grow: bool) -> None:
    sink = f"iceberg: {{table_identifier: a.b, auto_create: true, identifier_columns: [id]{key}}}"
    [settings] = parse_text(f"p:\n  source:\n    {FILES}\n  sink:\n    - {sink}\n", PLUGINS).pipelines
    catalog = SimpleNamespace(properties={}, name="lakehouse")
    assert Wiring(settings, Path("state"), lambda properties: ("lakehouse", catalog)).may_grow is may_grow
