"""Nested columns of files that are older than their parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg import types as iceberg
from pyiceberg.schema import Schema

from calve.catalog.data_files import StoredFile, chosen_rows
from calve.catalog.nested_columns import fitted
from calve.table.arrow_schema import arrow_schema
from kit.tables import table_of

LEAVES = {
    1: (iceberg.LongType(), st.integers(-9, 9)),
    2: (iceberg.StringType(), st.sampled_from(["", "é"])),
    3: (iceberg.FixedType(2), st.just(b"xy")),
    4: (iceberg.DoubleType(), st.just(0.5)),
}
"""Types by the last digit of an id."""


def struct_of(chosen: dict[int, str], inner: dict[int, str]) -> iceberg.StructType:
    leaves = [iceberg.NestedField(10 + at, name, LEAVES[at][0], required=False) for at, name in chosen.items()]
    within = [iceberg.NestedField(20 + at, name, LEAVES[at][0], required=False) for at, name in inner.items()]
    if within:
        listed = iceberg.ListType(element_id=31, element=iceberg.StructType(*within), element_required=False)
        leaves.append(iceberg.NestedField(30, "within", listed, required=False))
        mapped = iceberg.MapType(41, iceberg.StringType(), 42, iceberg.StructType(*within), value_required=False)
        leaves.append(iceberg.NestedField(40, "mapped", mapped, required=False))
    return iceberg.StructType(*leaves)


def schema_of(parts: iceberg.StructType) -> Schema:
    return Schema(iceberg.NestedField(1, "s", parts, required=False))


PARTS = st.dictionaries(st.sampled_from(sorted(LEAVES)), st.sampled_from(["a", "b", "c", "d"]), min_size=1).filter(
    lambda parts: len({*parts.values()}) == len(parts)
)


@st.composite
def rows(draw: st.DrawFn, chosen: dict[int, str], inner: dict[int, str]) -> list[Any]:
    def struct(parts: dict[int, str]) -> st.SearchStrategy[dict[str, Any]]:
        return st.fixed_dictionaries({name: st.none() | LEAVES[at][1] for at, name in parts.items()})

    mapped = st.dictionaries(st.sampled_from("xyz"), st.none() | struct(inner)).map(lambda items: [*items.items()])
    within = {"within": st.none() | st.lists(st.none() | struct(inner), max_size=3), "mapped": st.none() | mapped}
    whole = st.tuples(struct(chosen), st.fixed_dictionaries(within)).map(lambda both: both[0] | both[1])
    return draw(st.lists(st.none() | whole, min_size=1, max_size=5))


@given(st.data(), PARTS, PARTS, PARTS, PARTS | st.just({}))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_older_rows_have_the_parts_of_now(
    tmp_path: Path,
    data: st.DataObject,
    older: dict[int, str],
    inner: dict[int, str],
    newer: dict[int, str],
    inner_now: dict[int, str],
) -> None:
    before, now = schema_of(struct_of(older, inner)), schema_of(struct_of(newer, inner_now))
    values = data.draw(rows(older, inner))
    pq.write_table(pa.table({"s": values}, arrow_schema(before)), tmp_path / "f.parquet")
    parts = chosen_rows(StoredFile(str(tmp_path / "f.parquet")), table_of(now), np.array([True] * len(values)))
    read = pa.concat_tables(parts)
    read.validate(full=True)
    assert read.schema == arrow_schema(now)
    expected = [projected(value, older, newer, inner, inner_now) for value in values]
    assert read["s"].to_pylist() == expected
    column = pq.read_table(tmp_path / "f.parquet")["s"].slice(1)  # an array that begins within its buffers
    assert fitted(column, read["s"].type, set()).to_pylist() == expected[1:]


def projected(value: Any, older: Any, newer: Any, inner: Any, inner_now: Any) -> Any:
    """Return a value with the parts of now: each by its id; a missing one is null."""
    if value is None:
        return None
    row = {name: value.get(older.get(at)) for at, name in newer.items()}
    if inner_now:
        within = value["within"]
        row["within"] = None if within is None else [projected(item, inner, inner_now, {}, {}) for item in within]
        mapped = value["mapped"]
        row["mapped"] = mapped and [(key, projected(item, inner, inner_now, {}, {})) for key, item in mapped]
    return row


def test_a_part_that_is_not_null_in_older_rows_is_left_to_iceberg(tmp_path: Path) -> None:
    before = schema_of(struct_of({1: "a"}, {}))
    pq.write_table(pa.table({"s": [{"a": 1}]}, arrow_schema(before)), tmp_path / "f.parquet")
    added = iceberg.NestedField(12, "b", iceberg.StringType(), required=False, initial_default="x")
    now = schema_of(iceberg.StructType(*struct_of({1: "a"}, {}).fields, added))
    with pytest.raises(pa.ArrowInvalid, match="lacks b"):
        list(chosen_rows(StoredFile(str(tmp_path / "f.parquet")), table_of(now), np.array([True])))
