"""What objects become in new columns, and where the fields beyond `max_columns` go: nothing is lost."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calve.columns.options import ConvertOptions
from calve.convert.converter import Converter
from calve.errors import SettingsError
from calve.event.columns import EVENT, SCHEMA, TYPED
from calve.event.typed_schema import declaration
from calve.pipeline.plugins import PLUGINS
from calve.settings import parse_text
from calve.table.definition import schema_from_columns
from calve.table.loaded import Table
from kit.lake import Lake

AUTO = {"table_identifier": "ns.t", "auto_create": True, "schema_evolution": True}
V3 = {"table_properties": {"format-version": "3"}}
OBJECT = {"n": 1, "f": 1.50, "s": "x", "b": True, "l": [1, {"k": 2}], "o": {"k": None}, "z": None}
EVENT_TEXT = '{"id":1,"o":' + json.dumps(OBJECT) + ',"l":[{"a":1},{"a":"x"}],"e":{}}'
AS_MAP = {"n": "1", "f": "1.5", "s": "x", "b": "true", "l": '[1,{"k":2}]', "o": '{"k":null}', "z": None}


def columns(lake: Lake) -> dict[str, str]:
    table = lake.catalog.load("ns.t")
    assert table
    return {field.name: str(field.field_type) for field in table.schema.fields}


def test_objects_are_maps(tmp_path: Path) -> None:
    lake = Lake(tmp_path, {**AUTO, "objects": "map"})
    lake.write([EVENT_TEXT, '{"id":2,"o":{"other":{"deep":[]}}}'])
    kinds = columns(lake)
    assert kinds == {
        "id": "long",
        "o": "map<string, string>",
        "l": "list<map<string, string>>",
        "e": "map<string, string>",
    }
    first, second = lake.rows["ns.t"]
    assert dict(first["o"]) == AS_MAP
    assert [dict(item) for item in first["l"]] == [{"a": "1"}, {"a": "x"}]
    assert (dict(first["e"]), dict(second["o"])) == ({}, {"other": '{"deep":[]}'})
    assert not lake.letters


def test_objects_are_variants_with_their_lists_and_texts_by_pattern(tmp_path: Path) -> None:
    lake = Lake(tmp_path, {**AUTO, **V3, "objects": {"o": "string", "l": "variant", "*.deep": "map"}})
    lake.write([EVENT_TEXT, '{"id":2,"s":{"deep":{"a":1},"x":{"y":1}}}'])
    kinds = columns(lake)
    assert {name: kinds[name] for name in "ole"} == {"o": "string", "l": "variant", "e": "string"}
    assert "deep: optional map<string, string>" in kinds["s"]
    assert "y: optional long" in kinds["s"]
    assert json.loads(lake.rows["ns.t"][0]["o"]) == OBJECT
    assert not lake.letters


@pytest.mark.parametrize(
    ("objects", "kinds"),
    [
        ({"l": "map"}, {"l": "list<map<string, string>>", "n": "list<list<struct<12: a: optional long>>>"}),
        (
            {"l": "map", "l.element": "string", "n": "map"},
            {"l": "list<string>", "n": "list<list<map<string, string>>>"},
        ),
        ({"n.element": "string"}, {"n": "list<list<string>>"}),
    ],
)
def test_the_name_of_a_list_is_that_of_its_objects_unless_they_have_one(
    tmp_path: Path, objects: dict[str, str], kinds: dict[str, str]
) -> None:
    lake = Lake(tmp_path, {**AUTO, "objects": objects})
    lake.write(['{"id":1,"l":[{"a":1}],"n":[[{"a":1}]]}'])
    found = columns(lake)
    assert {name: re.sub(r"\d+: ", "", found[name]) for name in kinds} == {
        name: re.sub(r"\d+: ", "", kind) for name, kind in kinds.items()
    }
    assert not lake.letters


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({"objects": "variant"}, "objects"),
        ({"objects": {"a": "variant"}}, "objects.a"),
        ({"overflow": {"column": "rest", "type": "variant"}}, "overflow.type"),
        ({"overflow": {"column": "id"}, "identifier_columns": ["id"]}, "overflow.column"),
        ({"overflow": {"column": "_file"}}, "overflow.column"),
        ({"overflow": {"column": "rest"}, "partial_updates": "keep"}, "overflow"),
        ({"objects": "list"}, "objects"),
    ],
)
def test_contradictions_are_refused_at_their_place(options: dict[str, Any], place: str) -> None:
    pipeline = {"source": {"http": {}}, "sink": [{"iceberg": {**AUTO, **options}}]}
    with pytest.raises(SettingsError) as refused:
        parse_text(json.dumps({"p": pipeline}), PLUGINS)
    assert f"iceberg.{place}" in str(refused.value)


@pytest.mark.parametrize("kind", ["map", "string"])
def test_fields_beyond_the_limit_are_in_the_overflow(tmp_path: Path, kind: str) -> None:
    lake = Lake(tmp_path, {**AUTO, "max_columns": 3, "overflow": {"column": "rest", "type": kind}})
    events = [{"id": 1, "a": 1, "b": 2}, {"id": 2, "c": {"x": [1]}, "d": "t", "e": None}, {"id": 3, "rest": "own"}]
    lake.write(map(json.dumps, events))
    assert len(columns(lake)) <= 4
    for event, row in zip(events, lake.rows["ns.t"], strict=True):
        rest = dict(row["rest"] or {}) if kind == "map" else json.loads(row["rest"] or "{}")
        for name, value in event.items():
            if name in rest and kind == "map":
                assert rest[name] == (value if isinstance(value, str) else json.dumps(value, separators=(",", ":")))
            elif value is not None:
                assert rest.get(name, row.get(name)) == value
    assert not lake.letters


def test_without_evolution_unknown_fields_are_in_the_overflow_and_counted(tmp_path: Path) -> None:
    lake = Lake(tmp_path, {**AUTO, "schema_evolution": False, "overflow": {"column": "rest"}})
    lake.write(['{"id":1,"s":{"a":1}}'])
    lake.write(['{"id":2,"s":{"a":2,"b":3},"x":null}', '{"id":3}'])
    rows = lake.rows["ns.t"]
    assert [(row["id"], row["rest"] and dict(row["rest"])) for row in rows] == [
        (1, None),
        (2, {"s": '{"a":2,"b":3}'}),
        (3, None),
    ]
    assert rows[1]["s"] == {"a": 2}


SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.text('ab"\\é', max_size=3))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.sampled_from("abc"), inner, max_size=3)),
    max_leaves=5,
)
EVENTS = st.lists(
    st.dictionaries(st.sampled_from(["a", "b", "c", "d", "rest", "Rest", "B"]), VALUES, min_size=1),
    min_size=1,
    max_size=6,
)
COLUMNS = [
    {"name": "a", "type": "map<string, string>"},
    {"name": "b", "type": "struct<a: string>"},
    {"name": "c", "type": "list<struct<a: string>>"},
    {"name": "rest", "type": "map<string, string>"},
]
TABLE = Table("ns.t", "", "", schema_from_columns(COLUMNS).model_dump_json(), '{"spec-id":0,"fields":[]}')


@given(EVENTS, st.booleans(), st.booleans())
def test_both_paths_agree_about_the_overflow_and_lose_no_field(
    events: list[dict[str, Any]], evolves: bool, ignores_case: bool
) -> None:
    options = ConvertOptions(
        look_for_unknown=evolves,
        count_ignored=not evolves,
        overflow="rest",
        column_limit=4,
        case_insensitive=ignores_case,
        on_type_mismatch="dlq",
    )
    rows = pa.table({EVENT: pa.array([json.dumps(event).encode() for event in events], pa.binary())})
    fast, slow = Converter(TABLE, options), Converter(TABLE, options)
    slow._core = None
    results = [converter.convert(rows) for converter in (fast, slow)]
    rejects = [converted.rejects.select(["row", "code"]).to_pylist() for converted in results]
    assert results[0].rows.to_pylist() == results[1].rows.to_pylist()
    assert rejects[0] == rejects[1]
    assert results[0].ignored == results[1].ignored
    assert results[0].unknown is results[1].unknown is None
    for row, written in zip(results[0].row.to_pylist(), results[0].rows.to_pylist(), strict=True):
        rest = dict(written["rest"] or {})
        for name, value in events[row].items():
            column = name.lower() if ignores_case else name
            whole = column in "abc" and name != "rest" and _is_whole(written[column], value)
            assert value is None or rest.get(name) == _text(value) or whole or (column == "a" and name not in rest)


def _is_whole(written: Any, value: Any) -> bool:
    """Return whether a column has all of a value; null fields may be missing."""
    if isinstance(value, dict) and isinstance(written, dict):
        return all(item is None or _is_whole(written.get(name), item) for name, item in value.items())
    if isinstance(value, list) and isinstance(written, list):
        return len(written) == len(value) and all(map(_is_whole, written, value))
    return bool(written == (None if value is None else _text(value)))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def test_typed_rows_are_those_of_their_texts() -> None:
    events = [{"a": {"x": 1}, "b": {"a": "s", "z": 2}, "d": [1, 2]}, {"a": {"x": None}, "b": None, "d": None}]
    struct = pa.array(events)
    typed = pa.table(
        {TYPED: struct, SCHEMA: pa.array([declaration(pa.schema(list(struct.type)))] * 2).dictionary_encode()}
    )
    texts = pa.table({EVENT: pa.array([json.dumps(event).encode() for event in events], pa.binary())})
    converter = Converter(TABLE, ConvertOptions(look_for_unknown=True, overflow="rest", column_limit=4))
    both = [converter.convert(rows) for rows in (typed, texts)]
    assert both[0].rows.to_pylist() == both[1].rows.to_pylist()
    assert dict(both[0].rows["rest"][0].as_py()) == {"b": '{"a":"s","z":2}', "d": "[1,2]"}
    assert both[0].ignored == {"b (in rest)": 1, "d (in rest)": 1}
