"""The columns that processors declare are those that their events have, for random chains of them."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calve.errors import SettingsError
from calve.event.columns import EVENT, SCHEMA
from calve.event.envelope.schema import Field, field_of, text_of
from calve.pipeline.plugins import PLUGINS
from calve.pipeline.row_changes import changed_table
from calve.processors.chain import compiled
from calve.settings import SettingsErrors, parse_text
from calve.sources.source import SourceTable
from processors.chains import chain, plugins

FIELDS = {"id": "int64", "n": "int32", "s": "string", "day": "date", "f": "double"}
TYPES = {"id": "long", "n": "int", "s": "string", "day": "date", "f": "double"}
EVENTS = [{"id": 1, "n": 2, "s": " Ab ", "day": "2026-11-28", "f": 0.5}, dict.fromkeys(FIELDS)]
DECLARED = text_of(Field("", "struct", fields=tuple(Field(name, kind) for name, kind in FIELDS.items())))
KINDS = {"string": (str,), "int32": (int,), "int64": (int,), "double": (float,), "boolean": (bool,), "date": (str,)}

TABLE = {"map": {"1": "one", "2": "two"}, "translate_when": "/id == 1"}

names = st.sampled_from([*FIELDS, "x", "y"])
flags = st.booleans()
processors = st.one_of(
    st.builds(
        lambda key, value, flag: {
            "add_entries": {"entries": [{"key": key, "value": value, "overwrite_if_key_exists": flag}]}
        },
        names,
        st.sampled_from(["t", 1, 1.5, True, None]),
        flags,
    ),
    st.builds(
        lambda key: {"add_entries": {"entries": [{"key": key, "format": "${/s}!", "add_when": "/n == 2"}]}}, names
    ),
    st.builds(
        lambda a, b, flag: {
            "copy_values": {"entries": [{"from_key": a, "to_key": b, "overwrite_if_to_key_exists": flag}]}
        },
        names,
        names,
        flags,
    ),
    st.builds(
        lambda a, b, flag: {
            "rename_keys": {"entries": [{"from_key": a, "to_key": b, "overwrite_if_to_key_exists": flag}]}
        },
        names,
        names,
        flags,
    ),
    st.builds(lambda keys: {"delete_entries": {"with_keys": keys}}, st.lists(names, min_size=1, max_size=2)),
    st.builds(
        lambda keys: {"select_entries": {"include_keys": keys}}, st.lists(names, min_size=1, max_size=4, unique=True)
    ),
    st.builds(lambda key: {"convert_type": {"key": key, "type": "string"}}, names),
    st.builds(lambda key: {"lowercase_string": {"with_keys": [key]}}, names),
    st.builds(lambda key: {"truncate": {"entries": [{"source_keys": [key], "length": 3}]}}, names),
    st.builds(lambda key: {"replace_string": {"entries": [{"source": key, "from": "a", "to": "b"}]}}, names),
    st.builds(lambda key: {"obfuscate": {"source": key}}, names),
    st.builds(
        lambda key, target: {"translate": {"mappings": [{"source": key, "targets": [{**TABLE, "target": target}]}]}},
        names,
        names,
    ),
    st.just({"drop_events": {"drop_when": "/n == 99"}}),
)


def source_table(**keys: int) -> SourceTable:
    fields = [
        {"id": number, "name": name, "type": kind, "required": name in keys}
        for number, (name, kind) in enumerate(TYPES.items(), 1)
    ]
    ids = [field["id"] for field in fields if field["required"]]
    return SourceTable("t", "u", json.dumps({"type": "struct", "fields": fields, "identifier-field-ids": ids}))


@given(st.lists(processors, min_size=1, max_size=6))
def test_events_have_the_declared_columns_with_values_of_their_types(chosen: list[dict[str, Any]]) -> None:
    ready = compiled(plugins(*chosen), ())
    if ready is None or ready.effects is None:
        return  # a copy to itself
    texts = pa.array([json.dumps(event).encode() for event in EVENTS], pa.binary())
    schemas = pa.array([DECLARED] * len(EVENTS)).dictionary_encode()
    rows = chain(*chosen).run(pa.table({EVENT: texts, SCHEMA: schemas})).rows
    kinds = {field.name: field.kind for field in field_of(rows[SCHEMA][0].as_py()).fields}
    full, empty = map(json.loads, rows[EVENT].to_pylist())
    assert set(full) | set(empty) == set(kinds) or "add_when" in str(chosen) or "translate" in str(chosen)
    assert set(full) | set(empty) <= set(kinds)
    for name, value in full.items():
        is_text = kinds[name] == "string" and type(value) in (int, float, bool)  # a column of strings takes them
        assert value is None or is_text or type(value) in KINDS[kinds[name]], (name, value)
    fields = json.loads(changed_table(source_table(), None, ready.effects).schema_json)["fields"]
    expected = {name: "int" if kind == "int32" else "long" if kind == "int64" else kind for name, kind in kinds.items()}
    assert {field["name"]: field["type"] for field in fields} == {
        n: kind for n, kind in expected.items() if kind != "null"
    }
    assert len({field["id"] for field in fields}) == len(fields)


@pytest.mark.parametrize(
    ("processor", "key"),
    [
        ({"rename_keys": {"entries": [{"from_key": "id", "to_key": "key"}]}}, "key"),
        ({"convert_type": {"key": "id", "type": "string"}}, "id"),
        ({"copy_values": {"entries": [{"from_key": "id", "to_key": "x"}]}}, "id"),
    ],
)
def test_a_key_may_be_renamed_copied_and_become_text(processor: dict[str, Any], key: str) -> None:
    ready = compiled(plugins(processor), ())
    assert ready
    schema = json.loads(changed_table(source_table(id=1), None, ready.effects).schema_json)
    assert [field["name"] for field in schema["fields"] if field["id"] in schema["identifier-field-ids"]] == [key]


@pytest.mark.parametrize(
    "processor",
    [
        {"delete_entries": {"with_keys": ["id"]}},
        {"select_entries": {"include_keys": ["s"]}},
        {"convert_type": {"key": "id", "type": "double"}},
        {"uppercase_string": {"with_keys": ["id"]}},
        {"add_entries": {"entries": [{"key": "id", "value": 1, "overwrite_if_key_exists": True}]}},
        {"rename_keys": {"entries": [{"from_key": "n", "to_key": "id", "overwrite_if_to_key_exists": True}]}},
    ],
)
def test_a_processor_that_would_lose_a_key_stops_the_pipeline(processor: dict[str, Any]) -> None:
    ready = compiled(plugins(processor), ())
    assert ready
    with pytest.raises(SettingsError, match="the column id of the key of t"):
        changed_table(source_table(id=1), None, ready.effects)


@pytest.mark.parametrize(
    ("processor", "why"),
    [
        ("grok: {match: {s: ['%{WORD:w}']}}", "only known from each event"),
        ("convert_type: {key: n, type: long, convert_when: '/n > 1'}", "it has a condition"),
        ("delete_entries: {with_keys: [a/b]}", "it changes a field inside of another one"),
        ("add_entries: {entries: [{key: a, value: {b: 1}}]}", "it adds an object or a list"),
        ("rename_keys: {entries: [{from_key_regex: 'a.*', to_key: b}]}", "only known from each event"),
    ],
)
def test_validate_refuses_processors_whose_effect_on_rows_of_tables_is_not_known(processor: str, why: str) -> None:
    yaml = (
        "p:\n  source: {postgres: {host: h, database: d, username: u}}\n"
        f"  processor:\n    - {processor}\n  sink:\n    - iceberg: {{table_identifier: a.b}}\n"
    )
    with pytest.raises(SettingsErrors, match=f"cannot change rows of tables.*{why}"):
        parse_text(yaml, PLUGINS)
