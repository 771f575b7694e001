"""What other systems call their operations is understood by configuration alone."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from calve.convert.converter import ConvertOptions
from calve.event.columns import EVENT, ORDER
from calve.event.validate_json import validated
from calve.expression import compile_format
from calve.reduce.key import Key
from calve.reduce.reducer import Reducer
from calve.route.by_table import ByTable
from calve.route.route import Router
from calve.route.sink_route import SinkRoute
from calve.table.loaded import Table

FIELDS = [("id", "long", True), ("name", "string", False)]
SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "identifier-field-ids": [1],
    "fields": [
        {"id": number, "name": name, "type": kind, "required": required}
        for number, (name, kind, required) in enumerate(FIELDS, 1)
    ],
}
TABLE = Table("db.t", "uuid", "/nowhere", json.dumps(SCHEMA), json.dumps({"spec-id": 0, "fields": []}))


def outcome(operation: str, upsert: bool, events: list[Any], **metadata: list[Any]) -> tuple[list[Any], list[Any]]:
    """Give the rows and the deleted keys that a batch of events leaves to write."""
    columns = {EVENT: pa.array([json.dumps(one).encode() for one in events], pa.binary())}
    table = pa.table(columns | {name: pa.array(values, pa.string()) for name, values in metadata.items()})
    rows = validated(table).rows.append_column(ORDER, pa.array(range(len(events)), pa.int64()))
    route = SinkRoute(compile_format("db.t"), (), ByTable(compile_format(operation, metadata.keys())))
    routed = Router([route]).route(rows)
    assert routed.rejects == {}
    [(number, _, positions)] = routed.parts
    reducer = Reducer(TABLE, Key(TABLE), ConvertOptions(), upsert)
    assert reducer.convert(routed.rows(rows, number, positions)).rejects.num_rows == 0
    net = reducer.net()
    return net.rows.to_pylist(), net.deletes["id"].to_pylist()


def test_files_of_dms_say_it_in_a_column_that_a_full_load_does_not_have() -> None:
    events = [
        {"id": "1", "name": "a"},
        {"Op": "I", "id": "2", "name": "b"},
        {"Op": "U", "id": "1", "name": "c"},
        {"Op": "D", "id": "2", "name": "b"},
        {"Op": "D", "id": "3", "name": "old"},
    ]
    assert outcome("${/Op}", False, events) == ([{"id": 1, "name": "c"}], [3])


def test_data_preppers_rds_events_are_right_by_opensearch_action_with_upsert() -> None:
    told = [
        ({"id": 1, "name": "export"}, "index", None),
        ({"id": 2, "name": "export"}, "index", None),
        ({"id": 1, "name": "updated"}, "index", "update"),
        ({"id": 2, "name": "export"}, "delete", "update"),  # a change of the key: the old row …
        ({"id": 9, "name": "export"}, "index", "update"),  # … and the new one
        ({"id": 4, "name": "new"}, "index", "insert"),
        ({"id": 5, "name": "gone"}, "delete", "delete"),
    ]
    events, actions, types = (list(column) for column in zip(*told, strict=True))
    rows, deletes = outcome(
        '${getMetadata("opensearch_action")}', True, events, opensearch_action=actions, change_event_type=types
    )
    assert [row["id"] for row in rows] == [1, 9, 4]
    assert [row["name"] for row in rows] == ["updated", "export", "new"]
    assert sorted(deletes) == [1, 2, 4, 5, 9]
