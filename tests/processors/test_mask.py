"""Masks: what each action does, the same for typed rows and texts, and nothing of what was hidden stays anywhere."""

from __future__ import annotations

import base64
import datetime
import decimal
import hashlib
import hmac
import json
from contextlib import nullcontext
from typing import Any

import pyarrow as pa
import pytest

from calve.errors import SettingsError
from calve.event.columns import EVENT, MASKED, ORIGINAL, SCHEMA, TYPED, WITHHELD
from calve.event.envelope.decoder import EnvelopeDecoder, Envelopes
from calve.event.envelope.schema import Field, field_of
from calve.event.reject import Code, Reject, rejects_table
from calve.event.typed import with_text
from calve.event.typed_schema import declaration
from calve.pipeline.plugins import PLUGINS
from calve.pipeline.row_changes import changed_table
from calve.processors.mask import ColumnMask, MaskColumns
from calve.processors.masking import Masker, Masks
from calve.settings import SettingsErrors, parse_text
from calve.sources.source import SourceTable

KEY = "0123456789abcdef"
YAML = """
p:
  source:
    {source}
  processor:
    {processor}
  sink:
    - iceberg: {{table_identifier: a.b, identifier_columns: [id]}}
"""
FILE = "file: {path: in.ndjson}"
KAFKA = "kafka: {bootstrap_servers: [h], topics: [{name: t, serde_format: debezium}]}"
MASK = "- mask: {key: 0123456789abcdef, columns: [{names: [%s], action: %s}]}"


def mask(*columns: ColumnMask, **more: Any) -> MaskColumns:
    return MaskColumns(columns=list(columns), key=KEY, **more)


def column(name: str, action: Any, **more: Any) -> ColumnMask:
    return ColumnMask(names=[name], action=action, **more)


def masked(masks: MaskColumns, *events: dict[str, Any]) -> list[dict[str, Any]]:
    table = pa.table({EVENT: pa.array([json.dumps(event).encode() for event in events], pa.binary())})
    rows = Masker(Masks((masks,))).mask(table)
    assert len(rows.malformed) == len(rows.failed) == 0
    return [json.loads(text) for text in rows.rows[EVENT].to_pylist()]


@pytest.mark.parametrize("text", [r'{"w":"B\ud800","v":1}', r'{"w":"B","v":"\udfff"}', r'{"w":"B","\ud83d":1}'])
def test_half_a_surrogate_pair_is_neither_masked_nor_replaced(text: str) -> None:
    events = pa.table({EVENT: [b'{"w":"A","v":"\xef\xbf\xbd"}', text.encode(), b'{"w":"C"}']})
    rows = Masker(Masks((mask(column("w", "fixed")),))).mask(events)
    assert rows.rows[EVENT].to_pylist() == [b'{"w":"***","v":"\xef\xbf\xbd"}', b'{"w":"***"}']
    assert [(letter["code"], letter["row"]) for letter in rows.failed.to_pylist()] == [("PROCESSOR_FAILED", 0)]
    assert "half a surrogate pair is not valid text" in rows.failed["reason"][0].as_py()
    assert rows.failed_rows[EVENT][0].as_py().startswith(b'{"w":"***",')
    row = pa.table({EVENT: pa.array([b'{"before":null,"after":%s,"op":"c"}' % text.encode()], pa.binary())})
    of_envelope = Masker(Masks((mask(column("w", "hash")),))).mask(
        EnvelopeDecoder(Envelopes("debezium")).decode(row).rows
    )
    assert len(of_envelope.failed) == 1 - len(of_envelope.rows) == 1


def hashed(text: str) -> str:
    return hmac.new(KEY.encode(), text.encode(), hashlib.sha256).hexdigest()


@pytest.mark.parametrize(
    ("entry", "value", "result"),
    [
        (column("a", "hash"), "x", hashed("x")),
        (column("a", "hash"), 12, hashed("12")),
        (column("a", "hash"), True, hashed("true")),
        (column("a", "hash"), {"b": [1]}, hashed('{"b":[1]}')),
        (column("a", "null"), "x", None),
        (column("a", "fixed", value="-"), 5, "-"),
        (column("a", "format", keep_last=4), "4111111111111234", "************1234"),
        (column("a", "format", keep_first=1, keep_last=1, character="x"), "äbcö", "äxxö"),
        (column("a", "format", keep_last=4), "1234", "****"),
        (column("a", "format"), "", ""),
        (column("a", "year"), "1987-06-05", "1987-01-01"),
        (column("a", "month"), "1987-06-05T10:11:12.5+02:00", "1987-06-01T00:00:00+02:00"),
        (column("a", "round", to=100), 12345.67, 12300),
        (column("a", "round", to=100), "-151", "-200"),
        (column("a", "hash"), None, None),
        (column("A?", "fixed"), "x", "x"),
    ],
)
def test_an_action_does_what_its_name_says(entry: ColumnMask, value: Any, result: Any) -> None:
    [event] = masked(mask(entry), {"id": 1, "a": value})
    assert event == {"id": 1, "a": result}


def test_names_match_in_any_case_inside_of_objects_and_lists_and_the_first_entry_counts() -> None:
    event = {"Email": "a", "home": {"street": "b", "zip": 1}, "calls": [{"phone": "c"}, 3], "phones": "d", "ssn": 5}
    entries = (column("EMAIL", "fixed"), column("home.street", "fixed"), column("*phone*", "fixed", value="no"))
    [event] = masked(mask(*entries, column("*", "drop")), event)
    assert event == {"Email": "***", "phones": "no"}
    [event] = masked(mask(*entries), {"home": {"street": "b", "zip": 1}, "calls": [{"phone": "c"}, 3]})
    assert event == {"home": {"street": "***", "zip": 1}, "calls": [{"phone": "no"}, 3]}


def test_a_number_that_no_mask_touches_keeps_its_digits_and_a_hash_is_base64_on_request() -> None:
    text = b'{"n":1.10000000000000000000000001,"a":"x"}'
    rows = Masker(Masks((mask(column("a", "hash"), encoding="base64"),))).mask(pa.table({EVENT: [text]})).rows
    digest = base64.b64encode(hmac.digest(KEY.encode(), b"x", "sha256"))
    assert rows[EVENT].to_pylist() == [b'{"n":1.10000000000000000000000001,"a":"%s"}' % digest]


TYPED_ROWS = pa.table(
    {
        "i": pa.array([1, None, -7], pa.int64()),
        "d": pa.array([decimal.Decimal("12.50"), None, decimal.Decimal("-0.01")], pa.decimal128(38, 2)),
        "t": pa.array(['ä"\\', None, ""], pa.string()),
        "b": pa.array([b"\x00\xff", None, b""], pa.binary()),
        "f": pa.array([5.0, None, 0.1], pa.float64()),
        "o": pa.array([True, None, False]),
        "day": pa.array([datetime.date(2026, 11, 28), None, datetime.date(1969, 2, 3)]),
        "at": pa.array(
            [datetime.datetime(2026, 11, 28, 1, 2, 3, 4, datetime.UTC), None, None], pa.timestamp("us", "UTC")
        ),
        "local": pa.array([datetime.datetime(2026, 11, 28, 1, 2, 3), None, None], pa.timestamp("us")),
        "s": pa.array([{"x": 1}, None, {"x": None}], pa.struct([("x", pa.int32())])),
        "l": pa.array([["a"], None, []], pa.list_(pa.string())),
        "w": pa.array(["a", None, "a"]).dictionary_encode(),
        "u": pa.array([b"0123456789abcdef", None, None], pa.uuid()),
    }
)


APPLIES = {"year": ("day", "at", "local"), "round": ("i", "d", "f")}


def typed(table: pa.Table) -> pa.Table:
    declared = pa.array([declaration(table.schema)] * len(table)).dictionary_encode()
    return pa.table({TYPED: table.to_struct_array().combine_chunks(), SCHEMA: declared})


@pytest.mark.parametrize("action", ["hash", "fixed", "format", "null", "drop", "year", "round"])
@pytest.mark.parametrize("name", TYPED_ROWS.column_names)
def test_typed_rows_have_the_same_masked_values_and_declarations_as_their_texts(action: Any, name: str) -> None:
    masker = Masker(Masks((mask(column(name, action, keep_last=2, to=5)),)))
    by_column, by_text = masker.mask(typed(TYPED_ROWS)), masker.mask(with_text(typed(TYPED_ROWS)))
    for one, other in ((by_column.rows, by_text.rows), (by_column.failed_rows, by_text.failed_rows)):
        texts = [list(map(json.loads, with_text(rows)[EVENT].to_pylist())) for rows in (one, other)]
        assert texts[0] == texts[1]
        assert one[SCHEMA].to_pylist() == other[SCHEMA].to_pylist()
    assert by_column.failed.equals(by_text.failed)
    assert (not len(by_column.failed)) == (name in APPLIES.get(action, TYPED_ROWS.column_names))
    assert by_column.failed_rows.num_rows == len(by_column.failed)
    if action in ("hash", "fixed", "format", "drop"):
        kinds = {field.name: field.kind for field in field_of(by_text.rows[SCHEMA][0].as_py()).fields}
        assert kinds.get(name) == (None if action == "drop" else "string")


def test_a_mask_inside_of_typed_objects_and_lists_reaches_them_and_their_declaration() -> None:
    people = pa.struct([("name", pa.string()), ("age", pa.int32())])
    table = pa.table({"who": pa.array([{"name": "n", "age": 1}], people), "all": pa.array([[{"name": "m", "age": 2}]])})
    rows = Masker(Masks((mask(column("*.name", "fixed"), column("*.age", "drop")),))).mask(typed(table)).rows
    assert json.loads(rows[EVENT][0].as_py()) == {"who": {"name": "***"}, "all": [{"name": "***"}]}
    who, every = field_of(rows[SCHEMA][0].as_py()).fields
    assert [field.name for field in who.fields] == ["name"] == [field.name for field in every.fields[0].fields]


def test_the_description_of_a_masked_column_has_the_id_of_the_key() -> None:
    declared = Field("", "struct", fields=(Field("a", "int64", doc="a number"), Field("b", "date", doc="")))
    masks = Masks((mask(column("a", "hash"), column("b", "year"), key_id="k7"),))
    assert masks.declared(declared).fields == (
        Field("a", "string", doc="a number (masked: hash, key k7)"),
        Field("b", "date", doc="masked: year"),
    )


def test_a_value_to_which_an_action_does_not_apply_makes_a_reject_without_it() -> None:
    texts = [b'{"id":1,"born":"CANARY"}', b'{"id":2,"born":"2026-01-02"}', b'["CANARY"]']
    events = pa.table({EVENT: texts, ORIGINAL: texts, "kafka_key": ["CANARY"] * 3})
    masker = Masker(Masks((mask(column("born", "year")),), ("kafka_key",)))
    result = masker.mask(events)
    assert [(one["row"], one["code"], one["field"]) for one in result.failed.to_pylist()] == [
        (0, "PROCESSOR_FAILED", "born")
    ]
    assert result.failed_rows.to_pylist() == [{EVENT: b'{"id":1,"born":null}', MASKED: '["born"]'}]
    assert result.rows.to_pylist() == [{EVENT: b'{"id":2,"born":"2026-01-01"}', MASKED: '["born"]'}]
    rows, rejects = masker.withheld(events, result.malformed)
    assert rows.to_pylist() == [{EVENT: None, WITHHELD: 10}]
    assert "CANARY" not in str(rejects.to_pylist())
    keeping = Masker(Masks((mask(column("born", "year"), unmasked="keep"),)))
    assert keeping.withheld(events, result.malformed) == (events, result.malformed)


def test_a_reason_that_came_before_the_mask_is_withheld_too() -> None:
    events = pa.table({EVENT: [b"CANARY"]})
    rejects = rejects_table([Reject(0, Code.MALFORMED, "CANARY", "unexpected CANARY")])
    _, rejects = Masker(Masks((mask(column("a", "hash")),))).withheld(events, rejects)
    assert "CANARY" not in str(rejects.to_pylist())


def test_attributes_with_values_of_rows_are_masked_by_name_or_hidden() -> None:
    masks = Masks((mask(column("document_id", "hash")),), ("document_id", "primary_key"))
    assert masks.hidden == {"primary_key"}
    rows = Masker(masks).mask(pa.table({EVENT: [b"{}"], "document_id": ["7"], "primary_key": ["7"], "o": ["x"]})).rows
    assert rows.drop_columns([EVENT, MASKED]).to_pylist() == [{"document_id": hashed("7"), "o": "x"}]


def test_a_masked_letter_is_masked_only_where_a_later_mask_has_more_columns() -> None:
    letter = {EVENT: [b'{"a":"x","b":"y","C":"z"}'], MASKED: ['["a", "c*"]'], "kafka_key": ["k"], "document_id": ["d"]}
    entries = (column("?", "fixed"), column("document_id", "fixed"))
    masks = Masks((mask(*entries),), ("kafka_key", "document_id"))
    [row] = Masker(masks).mask(pa.table(letter)).rows.to_pylist()
    names = '["a","c*","?","document_id"]'
    assert row == {EVENT: b'{"a":"x","b":"***","C":"z"}', "document_id": "***", MASKED: names}


def test_an_attribute_that_a_mask_names_is_masked_even_where_others_are_kept() -> None:
    masks = Masks((mask(column("document_id", "fixed"), unmasked="keep"),), ("document_id", "kafka_key"))
    rows = Masker(masks).mask(pa.table({EVENT: [b"{}"], "document_id": ["7"], "kafka_key": ["7"]})).rows
    assert rows.select(["document_id", "kafka_key"]).to_pylist() == [{"document_id": "***", "kafka_key": "7"}]


def test_validate_says_what_keeping_unmasked_letters_costs() -> None:
    keep = "- mask: {unmasked: keep, columns: [{names: [a], action: fixed}]}"
    [warning] = parse_text(YAML.format(source=FILE, processor=keep), PLUGINS).warnings
    assert "values that are to be hidden" in str(warning)


def source_table(*fields: dict[str, Any]) -> SourceTable:
    schema = {"type": "struct", "schema-id": 0, "fields": list(fields), "identifier-field-ids": [1]}
    return SourceTable("public.t", "u", json.dumps(schema))


ID = {"id": 1, "name": "id", "type": "long", "required": True}
NAME = {"id": 2, "name": "name", "type": "long", "required": True, "initial-default": 5}
BORN = {"id": 3, "name": "born", "type": "date", "required": False}


def test_a_source_table_has_the_types_and_defaults_of_its_masked_rows() -> None:
    masks = Masks((mask(column("id", "hash"), column("name", "hash"), column("born", "drop"), key_id="k"),))
    fields = json.loads(changed_table(source_table(ID, NAME, BORN), masks, None).schema_json)["fields"]
    doc = "masked: hash, key k"
    assert fields == [
        {**ID, "type": "string", "doc": doc},
        {**NAME, "type": "string", "doc": doc, "initial-default": hashed("5")},
    ]


def test_a_key_may_only_be_hashed() -> None:
    with pytest.raises(SettingsError, match=r"The column id is in the key of public\.t"):
        changed_table(source_table(ID), Masks((mask(column("id", "fixed")),)), None)


@pytest.mark.parametrize(
    ("processor", "why"),
    [
        ("- mask: {columns: [{names: [a], action: hash}]}", "p.processor[0].mask.key: `hash` needs a key"),
        ("- mask: {key: short, columns: [{names: [a], action: hash}]}", "mask.key"),
        (
            f"- lowercase_string: {{with_keys: [a]}}\n    {MASK % ('a', 'hash')}",
            "p.processor[1].mask: must come before",
        ),
        (MASK % ("id", "fixed"), "different keys equal"),
        (MASK % ("a", "hash") + "\n    - parse_json: {source: m}", "parse_json: makes fields that no mask has seen"),
        (MASK % ("a", "hash") + "\n    - csv: {source: m}", "csv: makes fields that no mask has seen"),
        (MASK % ("a", "hash") + "\n    - grok: {match: {m: ['%{WORD:a}']}}", "grok: makes fields"),
        (MASK % ("a", "hash") + "\n    - dissect: {map: {m: '%{a} %{b}'}}", "dissect: makes fields"),
        (MASK % ("a", "hash") + "\n    - key_value: {source: m}", "key_value: makes fields"),
        (MASK % ("a", "hash") + "\n    - list_to_map: {source: m, key: k}", "list_to_map: makes fields"),
        (MASK % ("a", "fixed") + "\n    - deduplicate: {keys: [b, a]}", "p.processor[1].deduplicate: `mask` makes"),
        (MASK % ("l.a", "drop") + "\n    - deduplicate: {keys: [l/0/a]}", "values of l/0/a equal"),
        (
            MASK % ("a", "null") + "\n    - aggregate: {identification_keys: [a/b], action: {remove_duplicates: {}}}",
            "p.processor[1].aggregate: `mask` makes different values of a/b equal",
        ),
        (MASK % ("a", "encrypt"), "one of hash, null, drop"),
        ("- mask: {columns: []}", "mask.columns"),
    ],
)
def test_validate_refuses_masks_that_cannot_be(processor: str, why: str) -> None:
    with pytest.raises(SettingsErrors) as refused:
        parse_text(YAML.format(source=FILE, processor=processor), PLUGINS)
    assert why in str(refused.value)
    assert KEY not in str(refused.value)


def test_masks_are_allowed_on_change_streams_and_other_processors_are_not() -> None:
    parse_text(YAML.format(source=KAFKA, processor=MASK % ("id", "hash")), PLUGINS)
    parse_text(YAML.format(source=FILE, processor=MASK % ("a", "hash") + "\n    - deduplicate: {keys: [a]}"), PLUGINS)
    more = MASK % ("a", "fixed") + "\n    - grok: {match: {a: [x]}}"
    with pytest.raises(SettingsErrors, match="grok: cannot change rows of tables"):
        parse_text(YAML.format(source=KAFKA, processor=more), PLUGINS)


@pytest.mark.parametrize(("names", "is_refused"), [("a", True), ("document_id", False), ("'*'", False)])
def test_validate_says_how_a_withheld_attribute_can_be_read(names: str, is_refused: bool) -> None:
    sink = """- opensearch: {hosts: ["http://h"], index: i, document_id: '${getMetadata("document_id")}'}"""
    start = YAML.partition("    - iceberg")[0]
    yaml = start.format(source="postgres: {host: h, database: d, username: u}", processor=MASK % (names, "hash"))
    refusal = pytest.raises(SettingsErrors, match=r"add it to a mask, as in \{names: \[document_id\], action: hash\}")
    with refusal if is_refused else nullcontext():
        parse_text(f"{yaml}    {sink}", PLUGINS)


def test_the_key_is_in_no_representation_of_a_pipeline() -> None:
    [pipeline] = parse_text(YAML.format(source=FILE, processor=MASK % ("a", "hash")), PLUGINS).pipelines
    assert KEY not in pipeline.shown + repr(pipeline)
