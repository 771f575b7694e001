"""Changes that come as typed rows leave what they leave as texts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pyiceberg import types as iceberg
from pyiceberg.schema import Schema

from calve.convert.converter import ConvertOptions
from calve.convert.typed_texts import with_kinds
from calve.event import typed
from calve.event.columns import OPERATION, ORDER, TYPED
from calve.event.operation import Operation
from calve.event.typed import with_text
from calve.reduce.key import Key
from calve.reduce.net import Net
from calve.reduce.reducer import Reducer
from calve.table.arrow_schema import arrow_schema
from convert.test_typed import OPTIONS, rows_of, shown, struct_types, typed_rows
from kit.examples import examples
from kit.tables import table_of

OPERATIONS = st.sampled_from([Operation.INSERT, Operation.UPDATE, Operation.DELETE])


def changed(rows: pa.Table, operations: list[Operation], start: int = 0) -> pa.Table:
    order = pa.array(np.arange(start, start + len(rows)))
    return rows.append_column(OPERATION, pa.array(operations, pa.int8())).append_column(ORDER, order)


def left(net: Net) -> dict[str, Any]:
    for rows in (net.rows, net.replaced_keys, net.gone):
        rows.validate(full=True)
    found = {"rows": net.rows, "replaced": net.replaced, "keys": net.replaced_keys, "gone": net.gone}
    return {name: repr(each.to_pylist()) for name, each in found.items()}


@given(st.data(), typed_rows(), OPTIONS, st.booleans())
@settings(max_examples=examples(50))
def test_typed_changes_leave_what_their_texts_leave(
    data: st.DataObject, rows: pa.Table, options: ConvertOptions, upsert: bool
) -> None:
    schema = Schema(*data.draw(struct_types(list(rows[TYPED].type))))
    names = [name for name in schema.column_names if schema.find_type(name).is_primitive and "." not in name]
    table = table_of(schema)
    key = Key(table, data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True)) if names else [])
    assume(key and not key.fault)
    operations = data.draw(st.lists(OPERATIONS, min_size=len(rows), max_size=len(rows)))
    both = [Reducer(table, key, options, upsert) for _ in range(2)]
    for start in (0, len(rows)):  # each row is changed twice
        events = changed(rows, operations if start else operations[::-1], start)
        texts = with_text(with_kinds(events, arrow_schema(schema)))
        straight, by_text = (each.convert(found) for each, found in zip(both, (events, texts), strict=True))
        assert shown(straight) == shown(by_text)
    assert left(both[0].net()) == left(both[1].net())


def test_changes_with_all_their_columns_and_deletes_by_key_get_no_text(monkeypatch) -> None:
    made: list[int] = []
    monkeypatch.setattr(typed, "to_json", lambda rows: made.append(len(rows)))
    columns = pa.table({"id": [1, 2, 3], "at": pa.array([0, 1, None], pa.timestamp("us", "UTC")), "x": [0.5, None, 1]})
    kinds = {"id": iceberg.LongType(), "at": iceberg.TimestamptzType(), "x": iceberg.DoubleType()}
    fields = [iceberg.NestedField(at, name, kind, required=False) for at, (name, kind) in enumerate(kinds.items(), 1)]
    table = table_of(Schema(*fields))
    for evolves in (True, False):
        options = ConvertOptions(look_for_unknown=evolves, count_ignored=not evolves)
        reducer = Reducer(table, Key(table, ["id"]), options, upsert=True)
        taken = reducer.convert(changed(rows_of(columns), [Operation.INSERT, Operation.UPDATE, Operation.DELETE]))
        assert (taken.row.to_pylist(), len(taken.rejects)) == ([0, 1, 2], 0)
        net = reducer.net()
        assert net.rows.to_pylist() == columns[:2].to_pylist()
        assert net.gone.to_pylist() == [{"id": 3}]
    assert made == []
