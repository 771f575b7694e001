"""Updates that lack columns, applied batch by batch: as in a dictionary of lists of rows, whatever the batches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, LongType, NestedField, StringType

from calve.commit.partial_updates import BatchPart, PartKind, apply_updates
from calve.reduce.key import ABSENT, EVENTS
from calve.table.arrow_schema import arrow_schema
from calve.table.loaded import Table

COLUMNS = ("must", "may", "new")
SCHEMA = Schema(
    NestedField(1, "k0", LongType(), required=True),
    NestedField(2, "must", StringType(), required=True),
    NestedField(3, "may", StringType()),
    NestedField(4, "new", IntegerType(), initial_default=7, write_default=7),
)
TABLE = Table("db.t", "u", "/t", SCHEMA.model_dump_json(), '{"spec-id":0,"fields":[]}')

key = st.integers(0, 3)
text = st.sampled_from(["a", "b", None])
row = st.tuples(key, st.sampled_from(["x", "y"]), text)
batch = st.tuples(
    st.sets(key), st.dictionaries(key, st.dictionaries(st.sampled_from(COLUMNS[:2]), st.just("z"))), st.lists(row)
)


class Keys:
    """What the search for keys does for them: their columns."""

    def columns(self, rows: pa.Table) -> pa.Table:
        return pa.table([rows["k0"]], ["k0"])


def parts_of(
    number: int, deletes: set[int], updates: Mapping[int, Mapping[str, Any]], rows: list[Any]
) -> list[BatchPart]:
    """Return a batch as its files have it; updates are older than the column `new`."""
    schema = arrow_schema(SCHEMA)
    columns = [*zip(*[(*values, None) for values in rows], strict=True)] if rows else [[]] * 4
    staged = {
        "k0": pa.array(list(updates), pa.int64()),
        **{
            name: pa.array([values.get(name) for values in updates.values()], schema.field(name).type)
            for name in COLUMNS[:2]
        },
        ABSENT: pa.array(
            [[at for at, name in enumerate(COLUMNS[:2], 2) if name not in values] for values in updates.values()],
            pa.list_(pa.int32()),
        ),
        EVENTS: pa.array([[f"{number} {key}".encode()] for key in updates], pa.list_(pa.large_binary())),
    }
    return [
        BatchPart(
            number,
            PartKind.ROW,
            pa.table(
                [pa.array(list(column), kind) for column, kind in zip(columns, schema.types, strict=True)],
                schema=schema,
            ),
        ),
        BatchPart(number, PartKind.UPDATE, pa.table(staged)),
        BatchPart(number, PartKind.DELETE, pa.table({"k0": pa.array(list(deletes), pa.int64())})),
    ]


@given(st.lists(row), st.lists(batch, min_size=1, max_size=5))
def test_updates_change_all_rows_of_their_key_or_are_new_ones_in_the_order_of_the_batches(
    older: list[Any], batches: list[Any]
) -> None:
    model: dict[int, list[list[Any]]] = {}
    updated: set[int] = set().union(*(updates for _, updates, _ in batches))
    lost: dict[int, list[bytes]] = {}

    def add(rows: list[Any]) -> None:
        for key, must, may in rows:
            model.setdefault(key, []).append([must, may, None, False])

    add(older)
    for number, (deletes, updates, rows) in enumerate(batches, 1):
        for key in deletes:
            model.pop(key, None)
        for key, values in updates.items():
            for changed in model.get(key, []):
                changed[:] = [values.get("must", changed[0]), values.get("may", changed[1]), changed[2], True]
            if not model.get(key) and "must" in values:
                model[key] = [[values["must"], values.get("may"), 7, True]]
            elif not model.get(key):
                lost.setdefault(number, []).append(f"{number} {key}".encode())
        add(rows)
    parts = [part for number, of_batch in enumerate(batches, 1) for part in parts_of(number, *of_batch)]
    parts.append(parts_of(0, set(), {}, older)[0])
    applied = apply_updates(Keys(), TABLE, parts)  # type: ignore[arg-type]
    expected = [(key, *values[:3]) for key, rows in model.items() if key in updated for values in rows if values[3]]
    assert sorted(map(str, zip(*applied.rows.to_pydict().values(), strict=True))) == sorted(map(str, expected))
    letters = {number: sorted(of_batch) for number, of_batch in applied.letters.items() if of_batch}
    assert letters == {number: sorted(of_batch) for number, of_batch in lost.items()}
