"""JSON in a variant is what it was, seen by a reader that knows the specification only."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from decimal import Decimal
from functools import reduce

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from calve.columns.fields import Fields
from calve.convert.converter import Converter, ConvertOptions
from calve.convert.iso8601 import MismatchError
from calve.convert.variant import MOST_BYTES, encode
from calve.event.exact_json import parse_object
from calve.table.definition import schema_from_columns
from convert.variants import decode, names_of
from kit.tables import table_of


def encoded(text: str) -> dict[str, bytes]:
    return encode(parse_object(f'{{"v":{text}}}')["v"])


def there_and_back(text: str) -> object:
    return decode(**encoded(text))


def same(found: object, expected: object) -> bool:
    """Whether a value is what a JSON text said: kinds and structure the same, numbers equal, the sign of a zero too."""
    if isinstance(expected, Decimal):
        if isinstance(found, float):
            equal = expected in (Decimal(found), Decimal(repr(found)))
            return equal and math.copysign(1, found) == math.copysign(1, expected)
        return type(found) in (int, Decimal) and found == expected and not (found == 0 and expected.is_signed())
    if type(found) is not type(expected):
        return False
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(same, found, expected))
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(same(found[key], expected[key]) for key in expected)
    return found == expected


texts = st.text(st.characters(codec="utf-8"), max_size=80)
numbers = st.one_of(
    st.integers(-(10**38) + 1, 10**38 - 1).map(str),
    st.integers(-(2**70), 2**70).map(str),
    st.integers(-300, 300).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.decimals(-(10**12), 10**12, places=7).map(str).map(str.lower),
    st.builds("{}.{}".format, st.integers(-(10**15), 10**15), st.from_regex("[0-9]{1,20}", fullmatch=True)),
    st.builds("{}e{}".format, st.integers(-999, 999), st.integers(-30, 30)),
)
values = st.recursive(
    st.one_of(st.just("null"), st.just("true"), st.just("false"), numbers, texts.map(json.dumps)),
    lambda below: st.one_of(
        st.lists(below, max_size=8).map(lambda items: "[" + ",".join(items) + "]"),
        st.dictionaries(texts, below, max_size=8).map(
            lambda items: "{" + ",".join(f"{json.dumps(key)}:{value}" for key, value in items.items()) + "}"
        ),
    ),
    max_leaves=30,
)


@given(values)
@example("-0")
@example('{"b":{"a":1},"a":{"b":2},"":[]}')
@example('{"\\uffff":1,"\\ud83d\\ude00":2}')
def test_any_json_comes_back_as_it_was(text: str) -> None:
    assert same(there_and_back(text), json.loads(text, parse_float=Decimal, parse_int=Decimal))


FORMS = [
    ("127", 3, 127), ("-128", 3, -128), ("128", 4, 128), ("-129", 4, -129), ("32768", 5, 32768), ("2147483648", 6, 2147483648),
    ("-9223372036854775808", 6, -(2**63)), ("9223372036854775808", 10, Decimal("9223372036854775808")), ("1e3", 4, 1000),
    ("1.10", 8, Decimal("1.10")), ("0.10", 8, Decimal("0.10")), ("1234567890.5", 9, Decimal("1234567890.5")), ("1e-10", 9, Decimal("1e-10")),
    ("12345678901234567890.123", 10, Decimal("12345678901234567890.123")), ("1e-38", 10, Decimal("1e-38")), ("0e99", 3, 0),
    ("1" + "0" * 37, 10, Decimal(10**37)), ("1.5" + "0" * 50, 8, Decimal("1.5")), ("1e-39", 7, 1e-39), ("1e300", 7, 1e300),
    ("1e38", 7, 1e38), ("5e-324", 7, 5e-324), ("0.1000000000000000055511151231257827021181583404541015625", 7, 0.1), ("-0.0", 7, -0.0),
]  # fmt: skip


@pytest.mark.parametrize(("text", "kind", "expected"), FORMS, ids=[text[:24] for text, _, _ in FORMS])
def test_a_number_takes_the_smallest_type_that_holds_it_with_its_digits(text, kind, expected) -> None:
    found = encoded(text)["value"]
    assert found[0] == kind << 2
    assert repr(there_and_back(text)) == repr(expected)


@pytest.mark.parametrize(
    "text",
    ["1e400", "-1e400", "1e-400", "3.14159265358979323846264338327950288419716", "1" * 39, "0." + "1" * 39, "1e" + "9" * 30,
     "1" * 3000, '"\\ud800"', '{"\\udc00":1}', '[{"a":1e999}]'],
)  # fmt: skip
def test_what_a_variant_cannot_hold_is_refused(text: str) -> None:
    with pytest.raises(MismatchError):
        encoded(text)


def test_lists_and_objects_of_any_size_come_back() -> None:
    for count in (255, 256, 70_000):
        items = list(range(count))
        assert there_and_back(json.dumps(items)) == items
        named = {f"k{number}": number for number in items}
        assert there_and_back(json.dumps(named)) == named
    long = {"x" * 100_000: "y" * 100_000}
    assert there_and_back(json.dumps(long)) == long


def test_what_is_nested_too_deeply_or_too_large_is_refused_and_nothing_else() -> None:
    assert there_and_back("[" * 200 + "]" * 200) is not None
    deep = reduce(lambda below, _: [below], range(100_000), [])
    with pytest.raises(MismatchError, match="nested too deeply"):
        encode(deep)
    with pytest.raises(MismatchError, match="too many for a variant"):
        encode("x" * (MOST_BYTES + 1))


def test_events_of_one_shape_share_their_names() -> None:
    first, second = encoded('{"b":{"a":1},"c":[{"a":2}]}'), encoded('{"c":[],"a":{"b":3}}')
    assert names_of(first["metadata"]) == ["a", "b", "c"]
    assert first["metadata"] == second["metadata"]


def convert(columns: dict[str, str], *events: str, **options):
    schema = schema_from_columns([{"name": n, "type": k, "required": n.endswith("!")} for n, k in columns.items()])
    rows = pa.table({"event": pa.array([event.encode() for event in events], pa.binary())})
    converted = Converter(table_of(schema), ConvertOptions(**options)).convert(rows)
    converted.rows.validate(full=True)
    return converted


def shown(variant: dict[str, bytes] | None) -> str | None:
    return None if variant is None else json.dumps(decode(**variant))


def test_a_null_is_the_variants_null_and_a_missing_field_is_none() -> None:
    columns = {"id": "int", "v": "variant", "s": "struct<v: variant, n: int>"}
    events = ['{"id":1,"v":null,"s":{"v":null}}', '{"id":2,"s":{"n":1}}', '{"id":3,"s":null}', '{"v":[null]}']
    rows = convert(columns, *events).rows.to_pylist()
    assert [shown(row["v"]) for row in rows] == ["null", None, None, "[null]"]
    assert [row["s"] and shown(row["s"]["v"]) for row in rows] == ["null", None, None, None]


def test_a_required_variant_that_is_missing_or_null_rejects() -> None:
    found = convert({"id": "int", "v!": "variant"}, '{"id":1}', '{"v!":null}', '{"v!":0}')
    assert found.rejects["code"].to_pylist() == ["REQUIRED_MISSING"] * 2
    assert shown(found.rows["v!"][0].as_py()) == "0"


def test_a_number_too_long_for_a_variant_is_null_and_counted_or_rejected() -> None:
    event = '{"id":1,"s":{"v":{"x":[1e999]}}}'
    columns = {"id": "int", "s": "struct<v: variant>"}
    found = convert(columns, event)
    assert (found.rows.to_pylist(), found.nulled) == ([{"id": 1, "s": None}], {"s": 1})
    [reject] = convert(columns, event, on_type_mismatch="dlq").rejects.to_pylist()
    assert (reject["code"], reject["field"]) == ("NOT_COERCIBLE", "s.v")
    assert "1e999" in reject["reason"]


def test_the_last_of_repeated_keys_wins_and_case_is_kept_inside() -> None:
    found = convert({"v": "variant"}, '{"V":{"a":1,"A":2,"a":3}}', case_insensitive=True)
    assert decode(**found.rows["v"][0].as_py()) == {"a": 3, "A": 2}


def test_fields_inside_a_variant_are_no_unknown_fields() -> None:
    found = convert({"v": "variant"}, '{"v":{"a":{"b":1}}}', '{"v":[{"c":1}]}', look_for_unknown=True)
    assert found.unknown is None
    assert convert({"v": "variant"}, '{"v":1,"w":2}', look_for_unknown=True).unknown


def test_a_variant_that_is_not_written_is_none() -> None:
    found = convert({"id": "int", "v": "variant"}, '{"id":1,"v":{"a":1}}', fields=Fields(exclude=frozenset({"v"})))
    assert found.rows.to_pylist() == [{"id": 1, "v": None}]


def test_lists_and_maps_of_variants_that_others_made_are_filled() -> None:
    columns = [{"name": "l", "type": "list<int>"}, {"name": "m", "type": "map<string, int>"}]
    table = table_of(schema_from_columns(columns))
    table = replace(table, schema_json=table.schema_json.replace('"int"', '"variant"'))
    event = b'{"l":[1,null,{"a":[]}],"m":{"x":null,"y":"z"}}'
    [row] = Converter(table).convert(pa.table({"event": [event]})).rows.to_pylist()
    assert [shown(each) for each in row["l"]] == ["1", "null", '{"a": []}']
    assert [(key, shown(each)) for key, each in row["m"]] == [("x", "null"), ("y", '"z"')]
