"""Schemas with variants: read, written again, and in Arrow."""

from __future__ import annotations

import json
import pickle

import pyarrow as pa
import pytest
from pyiceberg.transforms import BucketTransform, IdentityTransform, TruncateTransform

from calve.errors import SettingsError
from calve.table.arrow_schema import arrow_schema
from calve.table.definition import partition_spec_fields, schema_from_columns
from calve.table.kinds import VARIANT
from calve.table.schema import VariantType, is_variant, read_schema, read_type
from calve.table.type_text import parse_type


def field(number: int, name: str, kind: object) -> dict[str, object]:
    return {"id": number, "name": name, "type": kind, "required": False}


LIST = {"type": "list", "element-id": 10, "element": "variant", "element-required": False}
MAP = {"type": "map", "key-id": 11, "key": "string", "value-id": 12, "value": "variant", "value-required": False}
FIELDS = [
    field(1, "variant", "variant"),
    field(2, "type", "string") | {"doc": "variant"},
    field(3, "s", {"type": "struct", "fields": [field(4, "element", "variant"), field(5, "fields", "uuid")]}),
    field(6, "l", LIST),
    field(7, "m", MAP),
]
SCHEMA = {"type": "struct", "fields": FIELDS, "schema-id": 3, "identifier-field-ids": []}


def test_a_schema_with_variants_is_read_and_written_as_it_was() -> None:
    found = read_schema(json.dumps(SCHEMA))
    assert json.loads(found.model_dump_json()) == SCHEMA
    assert [is_variant(found, number) for number in (1, 2, 3, 4, 5, 10, 12)] == [
        True,
        False,
        False,
        True,
        False,
        True,
        True,
    ]
    assert pickle.loads(pickle.dumps(found)) == found


def test_a_variant_in_arrow_has_no_field_ids_inside() -> None:
    found = arrow_schema(read_schema(json.dumps(SCHEMA)))
    places = [found.field("variant"), found.field("s").type.field(0), found.field("l").type.value_field]
    places.append(found.field("m").type.item_field)
    assert [place.type for place in places] == [VARIANT] * 4
    assert [place.metadata[b"PARQUET:field_id"] for place in places] == [b"1", b"4", b"10", b"12"]
    assert [part.metadata for part in VARIANT.fields] == [None, None]
    assert found.field("s").type.field(1).type == pa.uuid()


def test_a_type_is_read_from_its_json_value() -> None:
    assert read_type("variant") == VariantType()
    assert str(read_type(LIST)) == "list<variant>"
    assert str(read_type("decimal(9, 2)")) == "decimal(9, 2)"


def test_a_schema_with_a_type_that_nobody_knows_is_refused() -> None:
    for kind in ("variants", "Variant"):
        with pytest.raises(ValueError, match=f"Unsupported field type: '{kind}'"):
            read_schema(json.dumps({**SCHEMA, "fields": [field(1, "v", kind)]}))


def test_a_variant_neither_divides_nor_identifies_rows() -> None:
    for transform in (IdentityTransform(), BucketTransform(4), TruncateTransform(4)):
        assert not transform.can_transform(VariantType())
    schema = schema_from_columns([{"name": "v", "type": "variant"}])
    for text in ("v", "bucket(4, v)", "void(v)"):
        with pytest.raises(SettingsError, match="cannot be used on a column of type variant"):
            partition_spec_fields([text], schema)
    with pytest.raises(ValueError, match="not a primitive type"):
        read_schema(json.dumps({**SCHEMA, "identifier-field-ids": [1]}))


def test_a_variant_needs_the_third_version_of_the_format() -> None:
    with pytest.raises(ValueError, match="variant is only supported in 3"):
        read_schema(json.dumps(SCHEMA)).check_format_version_compatibility(2)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("list<variant>", "variants in a list or map"),
        ("map<string, struct<a: list<int>, b: variant>>", "variants in a list or map"),
        ("map<variant, int>", "map key of type variant"),
        ("struct<a: unknown required>", "always null and cannot be required"),
    ],
)
def test_where_a_new_table_has_no_variant_the_text_is_refused(text: str, error: str) -> None:
    with pytest.raises(SettingsError, match=error):
        parse_type(text)
    assert str(parse_type("struct<l: list<int>, v: variant>"))
