"""Wherever a driver dies that deletes by position, a conversion or a compaction: each key has its last row, once.

The commits use a key index, so one that is killed after its swap has not noted what it did.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kit.small_indexes import DAMAGED, begin_index

SINK = """
    - iceberg:
        table_identifier: {name}
        auto_create: true
        operation: ${{/op}}
        identifier_columns: [id]
        table_properties: {{format-version: "{version}"}}
        write_mode: {mode}
        equality_delete_limit: 0
        commit_interval: 100ms
        schema: {{columns: [{{name: id, type: long}}, {{name: n, type: long}}]}}
"""
TABLES = {
    "shop.vectors": (3, "merge-on-read"),
    "shop.positions": (2, "merge-on-read"),
    "shop.keys": (3, "equality-delete"),
    "shop.old_keys": (2, "equality-delete"),
}
YAML = "shop:\n  source:\n    file: {path: 'in/*.ndjson'}\n  sink:" + "".join(
    SINK.format(name=name, version=version, mode=mode) for name, (version, mode) in TABLES.items()
)
CONVERTED = ("shop.keys", "shop.old_keys")
POINTS = ("commit.after-deletes", "commit.after-swap", "commit.after-table:2")
"""Of a commit: what comes before it and after it is the same for every table, and `test_stop_points` has it."""
COMPACTED = ("shop.vectors", "shop.positions")
MAINTENANCE = {
    "convert": ("commit.after-deletes", "commit.before-swap", "commit.after-swap"),
    "compact": ("maintain.after-copy", "commit.after-deletes", "commit.before-swap", "commit.after-swap"),
}
"""Of the first table; the last run does the second one."""


@pytest.mark.crash
@pytest.mark.spark
def test_each_key_has_its_last_row_wherever_a_commit_a_conversion_or_a_compaction_died(doomed) -> None:
    calve, rows = doomed(YAML), {}
    for number, point in enumerate(["", *POINTS]):
        calve.feed(number, _events(number, rows))
        if point:
            (calve.dies_at if point == POINTS[0] else calve.killed_at)(point)
        else:
            assert calve.once() == 0, calve.said()[-1500:]
            uuids = [calve.java_table(table).uuid() for table in COMPACTED]
            indexes = [begin_index(calve, "shop", uuid) for uuid in uuids]
    assert calve.once() == 0, calve.said()[-1500:]
    assert all(path.read_bytes() != DAMAGED for path in indexes)
    assert [_read(calve, table) for table in COMPACTED] == [rows] * 2
    _maintain(calve, "convert", CONVERTED)
    for table in CONVERTED:
        assert _read(calve, table) == rows
        summary = dict(calve.java_table(table).currentSnapshot().summary())
        assert summary["total-equality-deletes"] == "0"
    _maintain(calve, "compact", COMPACTED)
    assert [_read(calve, table) for table in COMPACTED] == [rows] * 2
    for table in COMPACTED:
        assert dict(calve.java_table(table).currentSnapshot().summary())["total-data-files"] == "1"
    calve.feed(99, _events(99, rows))
    assert calve.once() == 0, calve.said()[-1500:]
    done = calve.call("maintain", *CONVERTED, "--only", "convert")
    assert done.exit_code == 0, done.output
    assert [_read(calve, table) for table in TABLES] == [rows] * len(TABLES)


def _maintain(calve, what: str, tables: Sequence[str]) -> None:
    """Maintain tables, killed at each point, and then to the end."""
    arguments = ("maintain", *tables, "--only", what)
    for point in MAINTENANCE[what]:
        calve.killed_at(point, *arguments)
    done = calve.call(*arguments)
    assert done.exit_code == 0, done.output


def _events(number: int, rows: dict[int, int]) -> list[dict[str, object]]:
    """Events that insert, update and delete keys of earlier files, and what is left of the rows after them."""
    events: list[dict[str, object]] = []
    for at in range(30):
        key = (at * 7 + number * 11) % 60
        if at % 5 == 4 and key in rows:
            del rows[key]
            events.append({"op": "delete", "id": key})
        else:
            rows[key] = number * 100 + at
            events.append({"op": "update", "id": key, "n": rows[key]})
    return events


def _read(calve, table: str) -> dict[int, int]:
    """Return the rows as PyIceberg reads them, without a key twice."""
    rows = calve.rows(table).to_pylist()
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: row["n"] for row in rows}
