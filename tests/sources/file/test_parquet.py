import base64
import datetime as dt
import io
import json
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from calve.sources.file.parquet import read_parquet
from calve.sources.file.rows import FileBatches
from sources.file.texts import table

SCHEMA = pa.schema(
    [
        ("long", pa.int64()),
        ("unsigned", pa.uint64()),
        ("decimal", pa.decimal128(38, 10)),
        ("double", pa.float64()),
        ("float", pa.float32()),
        ("text", pa.string()),
        ("bytes", pa.binary()),
        ("instant", pa.timestamp("us", "Europe/Berlin")),
        ("local", pa.timestamp("us")),
        ("day", pa.date32()),
        ("list", pa.list_(pa.timestamp("us", "UTC"))),
        ("struct", pa.struct([("bytes", pa.binary()), ("a", pa.int32())])),
        ("map", pa.map_(pa.string(), pa.float64())),
    ]
)
TIMES = st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2200, 1, 1))
FINITE = st.floats(allow_nan=False, allow_infinity=False)


INSTANTS = TIMES.map(lambda value: value.replace(tzinfo=dt.UTC))


def optional(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


ROWS = st.fixed_dictionaries(
    {
        "long": optional(st.integers(-(2**63), 2**63 - 1)),
        "unsigned": optional(st.integers(0, 2**64 - 1)),
        "decimal": optional(st.decimals(-(10**27), 10**27, places=10)),
        "double": optional(FINITE),
        "float": optional(st.floats(width=32, allow_nan=False, allow_infinity=False)),
        "text": optional(st.text(st.characters(exclude_categories=["Cs"]))),
        "bytes": optional(st.binary()),
        "instant": optional(INSTANTS),
        "local": optional(TIMES),
        "day": optional(st.dates(dt.date(1, 1, 1), dt.date(9999, 1, 1))),
        "list": optional(st.lists(optional(INSTANTS), max_size=3)),
        "struct": optional(st.fixed_dictionaries({"bytes": optional(st.binary()), "a": optional(st.integers(0, 9))})),
        "map": optional(st.dictionaries(st.text("ab"), FINITE, max_size=2).map(lambda found: list(found.items()))),
    }
)


def read(data: bytes, start: int = 0) -> dict[str, list[Any]]:
    return table(read_parquet(pa.BufferReader(data), FileBatches("f"), start, len(data)))


def write(rows: pa.Table) -> bytes:
    out = io.BytesIO()
    parquet.write_table(rows, out, store_schema=True)
    return out.getvalue()


def plain(name: str, value: Any) -> Any:
    """Say what the JSON must hold, by the specification and not by our code."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dt.datetime):
        text = value.replace(tzinfo=None).isoformat()
        return (text.rstrip("0") if "." in text else text) + ("Z" if value.tzinfo else "")
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, dict):
        return {key: plain(key, inner) for key, inner in value.items()}
    if isinstance(value, list) and name == "map":
        return dict(value)
    return [plain("", inner) for inner in value] if isinstance(value, list) else value


@given(st.lists(ROWS, min_size=1, max_size=5))
def test_values_stay_exact(rows: list[dict[str, Any]]) -> None:
    found = read(write(pa.Table.from_pylist(rows, SCHEMA)))
    for event, row in zip(found["event"], rows, strict=True):
        values = json.loads(event, parse_float=Decimal)
        for name, expected in row.items():
            value = values[name]
            if name in ("double", "float") and value is not None:
                value = float(value)
            if name == "float" and expected is not None:
                assert pa.scalar(value, pa.float32()).as_py() == expected
                continue
            if name == "map" and value is not None:
                value = {key: float(inner) for key, inner in value.items()}
            assert value == plain(name, expected), name
    assert found["file_row"] == list(range(1, len(rows) + 1))


def test_what_json_lacks_is_a_string() -> None:
    found = read(write(pa.table({"f": [math.nan, math.inf, -math.inf, 0.5]})))
    assert found["event"] == [b'{"f":"NaN"}', b'{"f":"Infinity"}', b'{"f":"-Infinity"}', b'{"f":0.5}']


def test_nanoseconds_and_odd_names_stay() -> None:
    rows = pa.table({'it\'s "x"': pa.array([1], pa.timestamp("ns", "UTC")), "A": [1], "a": [2]})
    assert read(write(rows))["event"] == [b'{"it\'s \\"x\\"":"1970-01-01T00:00:00.000000001Z","A":1,"a":2}']


@pytest.mark.parametrize("keep", [0, 3, 100, -1, -20])
def test_a_file_without_its_end_is_one_reject(keep: int) -> None:
    data = write(pa.table({"a": range(100)}))
    assert [reason[:34] for reason in read(data[:keep])["malformed"]] == ["The file f cannot be read as Parqu"]
    assert read(data[:keep], start=1)["malformed"] == []


def test_damaged_data_gives_what_is_before_it_and_one_reject() -> None:
    out = io.BytesIO()
    parquet.write_table(pa.table({"a": range(100)}), out, row_group_size=50, compression="none", use_dictionary=False)
    data = bytearray(out.getvalue())
    opened = parquet.ParquetFile(io.BytesIO(data))
    offset = opened.metadata.row_group(1).column(0).data_page_offset
    data[offset : offset + 30] = b"\xff" * 30
    found = read(bytes(data))
    assert len(found["event"]) == 51
    assert "cannot be read after row 50" in found["malformed"][-1]
