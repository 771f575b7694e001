"""What numbers count in columns of timestamps, and which texts beside ISO 8601 are read."""

from __future__ import annotations

import json
import re

import pyarrow as pa
import pytest

from calve.convert.converter import Converter, ConvertOptions
from calve.convert.date_formats import date_format
from calve.errors import SettingsError
from calve.table.definition import schema_from_columns
from kit.tables import plain_rows, table_of

MICRO = 1_700_000_000_123_456


def values(kind: str, *given: object, **options: object) -> list[object]:
    """Convert values to a column and to a list, and to nothing where they are not coercible; give the column's."""
    events = [json.dumps({"v": value, "l": [value]}).encode() for value in given]
    schema = schema_from_columns([{"name": "v", "type": kind}, {"name": "l", "type": f"list<{kind}>"}])
    converter = Converter(table_of(schema), ConvertOptions(**options))
    found = plain_rows(converter.convert(pa.table({"event": pa.array(events, pa.binary())})).rows)
    assert [each["l"] for each in found] == [None if each["v"] is None else [each["v"]] for each in found]
    return [each["v"] for each in found]


@pytest.mark.parametrize(
    ("unit", "number", "micros"),
    [
        ("s", 1_700_000_000, 1_700_000_000_000_000), ("s", 1700000000.123456, MICRO), ("s", 1e300, None), ("s", 0.0000001, 0),
        ("ms", 1_700_000_000_123, 1_700_000_000_123_000), ("ms", 1700000000123.456, MICRO), ("us", MICRO, MICRO), ("us", 0.5, 0), ("us", 1.5, 2),
        ("ns", MICRO * 1000, MICRO), ("ns", MICRO * 1000 + 1, None), ("s", 253402300800, None), ("us", -1, -1), ("s", -1, -1_000_000),
        ("auto", 1_700_000_000, 1_700_000_000_000_000), ("auto", 10**11 - 1, (10**11 - 1) * 10**6), ("auto", 10**11, 10**14),
        ("auto", 1_700_000_000_123, 1_700_000_000_123_000), ("auto", MICRO, MICRO), ("auto", MICRO * 1000, MICRO),
        ("auto", -1_700_000_000, -1_700_000_000_000_000), ("auto", 0, 0), ("auto", 10**17, 10**14),
    ],
)  # fmt: skip
def test_numbers_count_what_the_settings_say(unit, number, micros):
    assert values("timestamptz", number, timestamp_unit=unit) == [micros]
    assert values("date", 20000, timestamp_unit=unit) == [20000]
    assert values("time", 1000, timestamp_unit=unit) == [1_000_000]


@pytest.mark.parametrize("unit", ["s", "auto"])
@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("1418530010", 1_418_530_010_000_000), ("1418530010.5", 1_418_530_010_500_000), ("-1", -1_000_000),
        ("1646861401.5241024", 1_646_861_401_524_102), ("2023-11-14T22:13:20Z", 1_700_000_000_000_000), ("12 s", None),
    ],
)  # fmt: skip
def test_digits_in_texts_are_numbers_where_the_unit_is_declared(unit, text, micros):
    assert values("timestamptz", text, timestamp_unit=unit) == [micros]
    assert values("timestamp", text) == [micros if "T" in text else None]


def test_a_pattern_of_digits_comes_before_their_number():
    options = {"timestamp_unit": "s", "timestamp_formats": ("yyyyMMdd",)}
    assert values("timestamptz", "20231114", "1418530010", **options) == [1_699_920_000_000_000, 1_418_530_010_000_000]


@pytest.mark.parametrize(
    ("unit", "number", "micros"),
    [
        ("s", "1646861401.5241024", 1_646_861_401_524_102), ("s", "1646861401.5241025", None),
        ("s", "1.6468614015241024e9", 1_646_861_401_524_102), ("ms", "1646861401524.7507", 1_646_861_401_524_751),
        ("s", "1646861401.52410241234", None), ("ns", "1646861401524102401", None), (None, "1646861401524.1026", None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("is_text", [False, True])
@pytest.mark.parametrize("mismatch", ["null", "dlq"])
def test_a_double_is_rounded_to_the_digits_of_its_column_and_counted(unit, number, micros, is_text, mismatch):
    schema = schema_from_columns([{"name": "v", "type": "timestamptz"}, {"name": "l", "type": "list<timestamp>"}])
    converter = Converter(table_of(schema), ConvertOptions(timestamp_unit=unit, on_type_mismatch=mismatch))
    shown = f'"{number}"' if is_text else number
    found = converter.convert(pa.table({"event": pa.array([f'{{"v":{shown},"l":[{shown}]}}'.encode()], pa.binary())}))
    if micros is None and mismatch == "dlq":
        assert found.rejects["code"].to_pylist() == ["NOT_COERCIBLE"]
        return
    assert plain_rows(found.rows) == [{"v": micros, "l": micros and [micros]}]
    assert found.ignored == ({"v (rounded)": 1, "l (rounded)": 1} if micros else {})
    assert found.nulled == ({} if micros else {"v": 1, "l": 1})


@pytest.mark.parametrize(
    ("value", "unit"), [("1418530010", "s"), (1646861401.5241024, "s"), ("1418530010123", "ms"), (10**15, "us")]
)
def test_a_number_that_is_no_time_without_a_unit_names_the_setting(value, unit):
    schema = schema_from_columns([{"name": "v", "type": "timestamptz"}])
    event = json.dumps({"v": value}).encode()
    found = Converter(table_of(schema), ConvertOptions()).convert(pa.table({"event": pa.array([event], pa.binary())}))
    assert re.search(f"set timestamp_unit.*{unit}", found.reasons["v"])


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("2023-11-14T22:13:20", 1_700_000_000_000_000), ("2023-11-14", 1_699_920_000_000_000), ("2023-11-14T22:13:20Z", None),
        ("2023-11-14T23:13:20+01:00", None), ("2023-11-14 22:13:20 z", None), ("2023-11-14T22:13-00", None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("mismatch", ["null", "dlq"])
def test_an_offset_is_not_dropped_in_a_column_that_was_inferred_without_one(text, micros, mismatch):
    columns = [
        {"name": name, "type": kind}
        for name, kind in (("v", "timestamp"), ("l", "list<timestamp>"), ("z", "timestamptz"))
    ]
    options = ConvertOptions(local_times=frozenset({"v", "l", "z"}), on_type_mismatch=mismatch)
    for name in ("v", "l"):
        event = json.dumps({name: [text] if name == "l" else text, "z": text}).encode()
        converter = Converter(table_of(schema_from_columns(columns)), options)
        found = converter.convert(pa.table({"event": pa.array([event], pa.binary())}))
        if micros is None and mismatch == "dlq":
            [reject] = found.rejects.to_pylist()
            assert (reject["code"], reject["field"][0]) == ("NOT_COERCIBLE", name)
            assert "inferred from date-times without one" in reject["reason"]
        else:
            [row] = plain_rows(found.rows)
            assert row[name] == (micros and [micros] if name == "l" else micros)
            assert row["z"] is not None
    declared = Converter(table_of(schema_from_columns(columns)), ConvertOptions(on_type_mismatch="dlq"))
    event = json.dumps({"v": text, "l": [text]}).encode()
    assert not len(declared.convert(pa.table({"event": pa.array([event], pa.binary())})).rejects)


def test_nanosecond_columns_have_the_same_units():
    for unit, number in {"s": 1_700_000_000, "ms": 17 * 10**11, "us": 17 * 10**14, "ns": 17 * 10**17}.items():
        assert values("timestamptz_ns", number, timestamp_unit=unit) == [17 * 10**17]
        assert values("timestamp_ns", number, timestamp_unit="auto") == [17 * 10**17]


FORMATS = (
    "dd/MMM/yyyy:HH:mm:ss Z",
    "yyyy-MM-dd HH:mm:ss,SSS",
    "M/d/yy h:mm a",
    "EEEE, d MMMM uuuu 'at' HH:mm",
    "dd.MM.yyyy",
)


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("14/Nov/2023:22:13:20 +0000", 1_700_000_000_000_000), ("14/nov/2023:23:13:20 +0100", 1_700_000_000_000_000),
        ("2023-11-14T22:13:20Z", 1_700_000_000_000_000), ("11/14/23 10:13 PM", 1_699_999_980_000_000),
        ("11/14/23 12:00 AM", 1_699_920_000_000_000), ("Tuesday, 14 November 2023 at 22:13", 1_699_999_980_000_000),
        ("14.11.2023", 1_699_920_000_000_000), ("31.02.2023", None), ("14/Nov/2023:25:13:20 +0000", None), ("soon", None),
        ("14/Nov/2023:22:13:20 +9900", None), ("01.01.0000", None),
    ],
)  # fmt: skip
def test_texts_are_read_by_the_first_pattern_that_matches(text, micros):
    assert values("timestamptz", text, timestamp_formats=FORMATS) == [micros]
    days = None if micros is None or micros % 86_400_000_000 else micros // 86_400_000_000
    assert values("date", text, timestamp_formats=FORMATS) == [days]
    assert values("timestamp", text) == [micros if text.endswith("Z") else None]


def test_no_digit_of_a_second_is_cut():
    options = {"timestamp_formats": ("dd.MM.yyyy HH:mm:ss.SSSSSSSSS",)}
    assert values("timestamp", "14.11.2023 22:13:20.123456000", **options) == [MICRO]
    assert values("timestamp", "14.11.2023 22:13:20.123456789", **options) == [None]
    assert values("timestamp_ns", "14.11.2023 22:13:20.123456789", **options) == [MICRO * 1000 + 789]


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("yyyy-MM-dd QQ", "'QQ' is unknown"), ("yyyy-MM", "needs a year, a month and a day"), ("HH:mm", "needs a year"),
        ("yyyy-MM-dd 'open", "is unknown"), ("yyyy-MM-dd]", "']' is unknown"), ("", "needs a year"),
    ],
)  # fmt: skip
def test_a_pattern_that_cannot_be_read_is_an_error_of_the_settings(pattern, why):
    with pytest.raises(SettingsError, match=why):
        date_format(pattern)


def test_an_instant_of_a_typed_source_is_not_dropped_either():
    schema = schema_from_columns([{"name": "v", "type": "timestamp"}])
    options = ConvertOptions(local_times=frozenset({"v"}), on_type_mismatch="dlq")
    for kind, rejects in ((pa.timestamp("us"), 0), (pa.timestamp("us", "UTC"), 1)):
        typed = pa.table({"_typed": pa.array([{"v": MICRO}], pa.struct([("v", kind)]))})
        found = Converter(table_of(schema), options).convert(typed)
        assert (len(found.rejects), plain_rows(found.rows)) == (rejects, [] if rejects else [{"v": MICRO}])


@pytest.mark.parametrize("unit", [None, "s", "auto"])
@pytest.mark.parametrize("number", ["1e999999999", "-1e999999999", "1e-999999999", "1e-9999999"])
def test_a_number_beyond_any_time_is_not_coercible(unit, number):
    schema = schema_from_columns(
        [{"name": name, "type": name} for name in ("timestamptz", "timestamp_ns", "date", "time")]
    )
    converter = Converter(table_of(schema), ConvertOptions(timestamp_unit=unit))
    for shown in (number, f'"{number}"'):
        event = "{" + ",".join(f'"{each.name}":{shown}' for each in schema.fields) + "}"
        found = converter.convert(pa.table({"event": pa.array([event.encode()], pa.binary())}))
        assert found.nulled == {each.name: 1 for each in schema.fields}
