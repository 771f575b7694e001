"""Inserts replace rows as long as the load may be read again, under a later snapshot that has their rows."""

from __future__ import annotations

from pathlib import Path

from calve import durable
from calve.sources.database.settings import Tables
from calve.sources.postgres import source
from calve.sources.postgres.settings import PostgresSettings
from calve.sources.source import Planned, Split

SETTINGS = PostgresSettings(host="h", database="d", username="u", tables=Tables(include=["a.*"]))
CHANGES = Planned([Split({"file": "000000000001.log", "start": 0, "end": 9})], {"segment": 1, "offset": 9})
UNTIL = 4711


def test_changes_that_are_planned_before_the_load_is_committed_replace_rows_wherever_the_snapshot_ends(
    tmp_path: Path, monkeypatch
) -> None:
    opened = source.open(SETTINGS, tmp_path, "p")
    durable.replace(tmp_path / "snapshot.json", ["x", UNTIL])
    opened._load.begun = {"chunks": [{"table": 1, "bytes": 1}]}
    monkeypatch.setattr(opened._log, "next", lambda *_: CHANGES)

    def until() -> int:
        [split] = opened.plan({"chunk": 1}, 1 << 20).splits
        return split.body["until"]

    assert until() > 1 << 62
    opened.acknowledge(Planned([], {"chunk": 1}))
    assert until() == UNTIL
