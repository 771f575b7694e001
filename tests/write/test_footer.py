"""Variants in Parquet: the logical type stands in the footer, where Parquet's own readers find it."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path

import duckdb
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.partitioning import PartitionSpec

from calve.convert.converter import Converter
from calve.table.definition import schema_from_columns
from calve.table.loaded import Table
from calve.write.footer import Marking
from calve.write.writer import Writers

COLUMNS = {
    "id": "long", "v": "variant", "s": "struct<a: variant, u: uuid, t: struct<b: variant, d: decimal(9,2)>>", "t": "timestamptz_ns",
    "l": "list<string>", "m": "map<string, int>", "w": "variant",
}  # fmt: skip
EVENTS = [
    {
        "id": number,
        "v": {"n": number, "name": f"event {number}", "l": [None, True]},
        "s": {"a": number, "t": {"b": [number]}},
    }
    for number in range(3000)
]


def table(folder, columns) -> Table:
    schema = schema_from_columns([{"name": name, "type": kind} for name, kind in columns.items()])
    return Table("a.b", "u", str(folder), schema.model_dump_json(), PartitionSpec().model_dump_json(), 3)


def convert(into: Table, events: list) -> pa.Table:
    return Converter(into).convert(pa.table({"event": [json.dumps(event).encode() for event in events]})).rows


def written(into: Table, events: list, **properties: str) -> dict:
    writers = Writers("w", max_open=2)
    writers.write("k", into, properties, convert(into, events))
    [file] = writers.close()["k"].files
    return msgspec.json.decode(file)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> dict:
    return written(table(tmp_path_factory.mktemp("t"), COLUMNS), EVENTS)


def variants(path: str) -> list[str]:
    """The groups with the logical type, as Parquet's own reader finds them."""
    lines = str(pq.ParquetFile(path).schema).splitlines()
    return [line.split()[3] for line in lines if "(Variant(1))" in line]


def test_variants_and_nothing_else_have_the_logical_type(file: dict) -> None:
    assert variants(file["file-path"]) == ["v", "a", "b", "w"]
    assert pq.read_table(file["file-path"]).column("id").to_pylist() == [event["id"] for event in EVENTS]


def test_the_description_of_a_file_is_right_to_the_byte_and_tells_nothing_of_variants(file: dict) -> None:
    assert Path(file["file-path"]).stat().st_size == file["file-size-in-bytes"]
    assert file["record-count"] == len(EVENTS)
    plain = {1, 4, 9, 12, 13, 14, 15}
    for key in ("value-counts", "null-value-counts", "lower-bounds"):
        assert not {2, 7, 8, 11} & set(file[key]["keys"]), key
    assert plain == set(file["value-counts"]["keys"])
    assert plain | {2, 7, 8, 11} == set(file["column-sizes"]["keys"])


def test_duckdb_reads_the_values(file: dict) -> None:
    sql = f"SELECT id, v::JSON, s.t.b::JSON FROM read_parquet('{file['file-path']}') WHERE id IN (7, 2999) ORDER BY id"
    found = [(number, json.loads(v), json.loads(b)) for number, v, b in duckdb.connect().execute(sql).fetchall()]
    assert found == [(number, EVENTS[number]["v"], [number]) for number in (7, 2999)]


def test_names_are_stored_once(file: dict) -> None:
    group = pq.ParquetFile(file["file-path"]).metadata.row_group(0)
    parts = {group.column(place).path_in_schema: group.column(place) for place in range(group.num_columns)}
    assert parts["v.metadata"].has_dictionary_page
    assert not parts["v.value"].has_dictionary_page
    assert parts["v.metadata"].statistics is None


@pytest.mark.parametrize("seed", range(20))
def test_a_footer_of_any_schema_is_marked_and_otherwise_kept(seed: int) -> None:
    rng = random.Random(seed)
    kinds = [pa.int64(), pa.string(), pa.decimal128(9, 2), pa.timestamp("us", "UTC"), pa.uuid(), pa.list_(pa.bool_())]
    kinds += [pa.struct([pa.field("metadata", pa.binary(), False), pa.field("value", pa.binary(), False)])] * 3
    ids = rng.sample(range(1, 100_000), rng.randint(1, 40))
    fields = [pa.field(f"c{number}" * rng.choice((1, 50)), rng.choice(kinds)) for number in ids]
    schema = pa.schema(
        [each.with_metadata({"PARQUET:field_id": str(key)}) for key, each in zip(ids, fields, strict=True)]
    )
    wanted = {key: each.name for key, each in zip(ids, schema, strict=True) if pa.types.is_struct(each.type)}
    groups, sinks = rng.randint(0, 3), (io.BytesIO(), io.BytesIO())
    marking = Marking(sinks[1], wanted)
    for sink in (sinks[0], marking):
        with pq.ParquetWriter(sink, schema) as writer:
            for _ in range(groups):
                writer.write_table(schema.empty_table())
            if sink is marking:
                marking.hold()
    marking.release()
    assert marking.tell() == len(sinks[1].getvalue())
    plain, marked = (sink.getvalue() for sink in sinks)
    assert len(marked) == len(plain) + 7 * len(wanted)
    text = str(pq.ParquetFile(io.BytesIO(marked)).schema)
    assert [line.split()[3] for line in text.splitlines() if "(Variant(1))" in line] == list(wanted.values())
    assert "\n".join(text.replace(" (Variant(1))", "").splitlines()[1:]) == "\n".join(
        str(pq.ParquetFile(io.BytesIO(plain)).schema).splitlines()[1:]
    )
    first, second = (pq.ParquetFile(io.BytesIO(data)).metadata.to_dict() for data in (plain, marked))
    assert {**first, "serialized_size": 0} == {**second, "serialized_size": 0}


def test_columns_of_type_unknown_are_left_out_of_files(tmp_path) -> None:
    columns = {
        "u": "unknown",
        "id": "long",
        "s": "struct<u: unknown, n: int required, v: variant>",
        "k": "struct<u: unknown>",
    }
    found = written(table(tmp_path, columns), [{"id": 1, "s": {"n": 2, "v": "x"}, "k": {}}, {"id": 2}])
    rows = pq.read_table(found["file-path"])
    assert rows.column_names == ["id", "s", "k"]
    assert [each.name for each in rows.schema.field("s").type] == ["n", "v"]
    assert [row["s"] and row["s"]["n"] for row in rows.to_pylist()] == [2, None]
    assert rows.column("k").to_pylist() == [{"u": None}, None]
