"""Each reading format into each type of Iceberg: a value is kept exactly, or it is rejected with the reason.

What a source means is Python's, fastavro's or Protobuf's; what a column must have of it is in `matrix_values`.
"""

from __future__ import annotations

import base64
import datetime as dt
import io
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from google.protobuf import json_format
from pyarrow import orc

from calve.dead_letters.rejects import DeadLetterLocation
from calve.event.envelope.decoder import Envelopes
from calve.expression import compile_format
from calve.record.receipt import Receipt
from calve.route.sink_route import SinkRoute
from calve.serde.settings import SchemaSettings, Serde
from calve.sinks.iceberg.job import TableJob
from calve.sources.file.codec import FilePart
from calve.sources.file.reader import FileReader
from calve.sources.file.settings import FileSettings
from calve.sources.source import Reader, Split
from calve.table.definition import schema_from_columns
from calve.task.job import Job
from calve.task.task import run_task
from event.envelope.debezium import envelope, field, unscaled, wrapped
from kit.tables import table_of
from serde.avro.values import encoded
from serde.protobuf.official import message_class
from task.matrix_values import MORE, REJECTED, TARGETS, VALUES, agrees, expected

ROWS = range(4)
QUOTE = '"'
CONNECT, TIME = "org.apache.kafka.connect.data", "io.debezium.time"
Columns = dict[str, list[Any]]
"""What the columns of a source mean, four values each."""


@dataclass(frozen=True)
class Values:
    """A reader of values of records."""

    values: tuple[bytes, ...]

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the values."""
        yield pa.record_batch({"event": pa.array(self.values, pa.binary())})


class Source(NamedTuple):
    """What a task reads, and what it means."""

    reader: Reader
    columns: Columns
    split: Split = Split({})
    serde: Serde | None = None
    envelopes: Envelopes | None = None


def _file(folder: Path, name: str, data: bytes, columns: Columns) -> Source:
    path = folder / name
    path.write_bytes(data)
    split = Split(asdict(FilePart(str(path), 0, len(data), len(data), 0)))
    return Source(FileReader(FileSettings(path=str(path))), columns, split)


def _json_value(value: Any) -> Any:
    """Return a value as JSON has it: what is none of its kinds is text."""
    match value:
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case np.float32():
            return float(value)
        case Decimal() | dt.date() | dt.time():
            return value.isoformat() if not isinstance(value, Decimal) else str(value)
        case bytes():
            return base64.b64encode(value).decode()
        case UUID():
            return str(value)
    return value


JSON: Columns = {name: [_json_value(value) for value in values] for name, values in VALUES.items()}


def _rows(columns: Columns) -> list[dict[str, Any]]:
    return [{name: values[row] for name, values in columns.items()} for row in ROWS]


def _ndjson(folder: Path) -> Source:
    return _file(folder, "a.ndjson", "\n".join(map(json.dumps, _rows(JSON))).encode(), JSON)


def _json(folder: Path) -> Source:
    return _file(folder, "a.json", json.dumps(_rows(JSON), indent=1).encode(), JSON)


def _csv(folder: Path) -> Source:
    def text(value: Any) -> str | None:
        return None if value is None else value if isinstance(value, str) else json.dumps(value)

    columns = {name: [text(value) for value in values] for name, values in JSON.items()}
    rows = [columns, *([row[name] for name in columns] for row in _rows(columns))]
    lines = [",".join("" if cell is None else f'"{cell.replace(QUOTE, QUOTE * 2)}"' for cell in row) for row in rows]
    return _file(folder, "a.csv", "\n".join(lines).encode(), columns)


_ARROW: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "special": pa.float64(),
    "decimal": pa.decimal128(20, 2),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "string": pa.string(),
    "text": pa.string(),
    "bytes": pa.binary(),
    "fixed": pa.binary(4),
    "uuid": pa.uuid(),
    "list": pa.list_(pa.int32()),
    "map": pa.map_(pa.string(), pa.int32()),
    "struct": pa.struct([("a", pa.int32())]),
}


_MORE: dict[str, pa.DataType] = {
    "unsigned": pa.uint64(),
    "half": pa.float16(),
    "nanos": pa.timestamp("ns"),
    "wide": pa.decimal256(50, 2),
    "duration": pa.duration("ms"),
}


def _arrow(without: tuple[str, ...] = ()) -> tuple[pa.Table, Columns]:
    kinds = {name: kind for name, kind in _ARROW.items() if name not in without}
    raw = {name: [value.bytes if isinstance(value, UUID) else value for value in VALUES[name]] for name in kinds}
    lists = {name: [list(one.items()) if name == "map" else one for one in values] for name, values in raw.items()}
    return pa.table({name: pa.array(lists[name], kind) for name, kind in kinds.items()}), {
        name: VALUES[name] for name in kinds
    }


def _parquet(folder: Path) -> Source:
    table, columns = _arrow()
    for name, kind in _MORE.items():
        table = table.append_column(name, pa.array(MORE[name], kind))
    table = table.append_column("category", table["text"].dictionary_encode())
    columns = {**columns, **MORE, "category": VALUES["text"]}
    out = io.BytesIO()
    pq.write_table(table, out)
    return _file(folder, "a.parquet", out.getvalue(), columns)


def _orc(folder: Path) -> Source:
    table, columns = _arrow(without=("time", "uuid", "fixed"))
    out = io.BytesIO()
    orc.write_table(table, out)
    return _file(folder, "a.orc", out.getvalue(), columns)


def _logical(kind: str, logical: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": logical, **more}


_AVRO: dict[str, Any] = {
    **{name: name for name in ("boolean", "int", "long", "float", "double", "string", "bytes")},
    "special": "double",
    "text": "string",
    "decimal": _logical("bytes", "decimal", precision=20, scale=2),
    "date": _logical("int", "date"),
    "time": _logical("long", "time-micros"),
    "timestamp": _logical("long", "local-timestamp-micros"),
    "timestamptz": _logical("long", "timestamp-micros"),
    "fixed": {"type": "fixed", "name": "F", "size": 4},
    "uuid": _logical("string", "uuid"),
    "list": {"type": "array", "items": "int"},
    "map": {"type": "map", "values": "int"},
    "struct": {"type": "record", "name": "S", "fields": [{"name": "a", "type": "int"}]},
}
_AVRO_SCHEMA = {
    "type": "record",
    "name": "R",
    "fields": [{"name": name, "type": ["null", kind]} for name, kind in _AVRO.items()],
}


def _avro_rows() -> list[dict[str, Any]]:
    rows = _rows({name: VALUES[name] for name in _AVRO})
    return [{name: float(one) if name == "float" else one for name, one in row.items()} for row in rows]


def _avro_file(folder: Path) -> Source:
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(json.loads(json.dumps(_AVRO_SCHEMA))), _avro_rows())
    read = list(fastavro.reader(io.BytesIO(out.getvalue())))
    return _file(folder, "a.avro", out.getvalue(), _avro_columns(read))


def _avro_columns(read: list[Any]) -> Columns:
    columns = {name: [row[name] for row in read] for name in _AVRO}
    return {**columns, "float": [np.float32(value) for value in columns["float"]]}


def _avro_topic(folder: Path) -> Source:
    values = tuple(encoded(_AVRO_SCHEMA, row) for row in _avro_rows())
    parsed = fastavro.parse_schema(json.loads(json.dumps(_AVRO_SCHEMA)))
    read = [fastavro.schemaless_reader(io.BytesIO(value), parsed, None) for value in values]
    serde = Serde("avro", SchemaSettings(inline_schema=json.dumps(_AVRO_SCHEMA)))
    return Source(Values(values), _avro_columns(read), serde=serde)


_PROTO_KINDS = {"boolean": "bool", "int": "int32", "long": "int64", "text": "string", "special": "double"}
_PROTO_KINDS |= {name: name for name in ("float", "double", "string", "bytes")}
_PROTO = 'syntax = "proto3";\nimport "google/protobuf/timestamp.proto";\nmessage R {\n'
_PROTO += "".join(
    f"  optional {kind} {name}_ = {number};\n" for number, (name, kind) in enumerate(_PROTO_KINDS.items(), 1)
)
_PROTO += "  google.protobuf.Timestamp timestamptz_ = 20; repeated int32 list_ = 21; map<string, int32> map_ = 22;\n"
_PROTO += "  S struct_ = 23; message S { optional int32 a = 1; }\n}\n"


def _protobuf(folder: Path) -> Source:
    names = [*_PROTO_KINDS, "timestamptz", "list", "map", "struct"]
    kind, values = message_class({"r.proto": _PROTO}, "R"), []
    for row in _rows({name: JSON[name] for name in names}):
        texts = {f"{name}_": value for name, value in row.items() if value is not None}
        values.append(json_format.ParseDict(texts, kind()).SerializeToString())
    serde = Serde("protobuf", SchemaSettings(inline_schema=_PROTO))
    return Source(Values(tuple(values)), {f"{name}_": VALUES[name] for name in names}, serde=serde)


def _json_schema(folder: Path) -> Source:
    kinds: dict[str, Any] = {name: {"type": "string"} for name in VALUES}
    kinds |= {"boolean": {"type": "boolean"}, "int": {"type": "integer"}, "long": {"type": "integer"}}
    kinds |= {"float": {"type": "number"}, "double": {"type": "number"}}  # NaN is text
    kinds |= {
        name: {"type": "string", "format": form} for name, form in (("date", "date"), ("timestamptz", "date-time"))
    }
    kinds |= {"list": {"type": "array", "items": {"type": "integer"}}, "uuid": {"type": "string", "format": "uuid"}}
    kinds |= {"map": {"type": "object", "additionalProperties": {"type": "integer"}}}
    kinds |= {"struct": {"type": "object", "properties": {"a": {"type": "integer"}}}}
    serde = Serde("json_schema", SchemaSettings(inline_schema=json.dumps({"type": "object", "properties": kinds})))
    rows = [{name: value for name, value in row.items() if value is not None} for row in _rows(JSON)]
    return Source(Values(tuple(json.dumps(row).encode() for row in rows)), JSON, serde=serde)


def _micros(value: dt.datetime) -> int:
    since = value.replace(tzinfo=dt.UTC) - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    return (since.days * 86_400 + since.seconds) * 10**6 + since.microseconds


_DEBEZIUM: dict[str, tuple[dict[str, Any], Callable[[Any], Any]]] = {
    "boolean": (field("boolean", "boolean"), bool),
    "int": (field("int", "int32"), int),
    "long": (field("long", "int64"), int),
    "float": (field("float", "float"), lambda value: float(str(value))),
    "double": (field("double", "double"), float),
    "special": (field("special", "double"), _json_value),
    "decimal": (
        field("decimal", "bytes", f"{CONNECT}.Decimal", parameters={"scale": "2", "connect.decimal.precision": "20"}),
        lambda value: unscaled(int(value.scaleb(2))),
    ),
    "date": (field("date", "int32", f"{TIME}.Date"), lambda value: (value - dt.date(1970, 1, 1)).days),
    "time": (
        field("time", "int64", f"{TIME}.MicroTime"),
        lambda value: _micros(dt.datetime.combine(dt.date(1970, 1, 1), value)),
    ),
    "timestamp": (field("timestamp", "int64", f"{TIME}.MicroTimestamp"), _micros),
    "timestamptz": (
        field("timestamptz", "string", f"{TIME}.ZonedTimestamp"),
        lambda value: value.isoformat().replace("+00:00", "Z"),
    ),
    "string": (field("string", "string"), str),
    "text": (field("text", "string"), str),
    "bytes": (field("bytes", "bytes"), _json_value),
    "uuid": (field("uuid", "string", "io.debezium.data.Uuid"), str),
    "list": ({**field("list", "array"), "items": {"type": "int32"}}, list),
    "struct": ({**field("struct", "struct"), "fields": [field("a", "int32")]}, dict),
}


_TEXT_IN_DEBEZIUM = ("decimal", "special", "bytes")


def _debezium(folder: Path) -> Source:
    rows = [
        {
            name: None if VALUES[name][row] is None else write(VALUES[name][row])
            for name, (_, write) in _DEBEZIUM.items()
        }
        for row in ROWS
    ]
    columns = [column for column, _ in _DEBEZIUM.values()]
    values = tuple(json.dumps(wrapped(columns, envelope("c", None, row))).encode() for row in rows)
    meant = {name: (JSON if name in _TEXT_IN_DEBEZIUM else VALUES)[name] for name in _DEBEZIUM}
    return Source(Values(values), meant, envelopes=Envelopes("debezium"))


FORMATS: Mapping[str, Callable[[Path], Source]] = {
    "ndjson": _ndjson,
    "json": _json,
    "csv": _csv,
    "parquet": _parquet,
    "orc": _orc,
    "avro file": _avro_file,
    "avro": _avro_topic,
    "protobuf": _protobuf,
    "json schema": _json_schema,
    "debezium": _debezium,
}


def _written(source: Source, target: str, folder: Path) -> tuple[list[dict[str, Any]], Receipt]:
    columns = [{"name": name, "type": target} for name in source.columns]
    table = replace(table_of(schema_from_columns(columns)), identifier="ns.t", location=str(folder), format_version=3)
    route, letters = SinkRoute(compile_format("ns.t", ())), DeadLetterLocation(str(folder / "dlq"))
    sink = TableJob("iceberg", route, letters, "c", {"ns.t": table}, on_type_mismatch="null")
    job = Job("p", "run", source.reader, (sink,), max_open_writers=3, serde=source.serde, envelopes=source.envelopes)
    receipt = run_task(job, [source.split], 0)
    assert isinstance(receipt, Receipt), receipt
    files = [json.loads(bytes(file)) for one in receipt.tables for file in one.files]
    return [row for file in files for row in _plain(pq.read_table(file["file-path"]), target)], receipt


def _plain(table: pa.Table, target: str) -> list[dict[str, Any]]:
    """Return rows; points in time in nanoseconds."""
    if target.startswith("timestamp"):
        table = table.cast(
            pa.schema([(name, pa.timestamp("us" if "_ns" not in target else "ns")) for name in table.column_names])
        )
        factor = 1 if "_ns" in target else 1000
        return [
            {name: None if one is None else one * factor for name, one in row.items()}
            for row in table.cast(pa.schema([(name, pa.int64()) for name in table.column_names])).to_pylist()
        ]
    return table.to_pylist()


@pytest.mark.parametrize("name", FORMATS)
def test_each_format_keeps_a_value_exactly_in_each_type_or_says_why_not(name: str, tmp_path: Path) -> None:
    source, faults = FORMATS[name](tmp_path), list[str]()
    for number, target in enumerate(TARGETS):
        rows, receipt = _written(source, target, tmp_path / str(number))
        assert [len(rows), receipt.rejects] == [len(ROWS), []], (target, receipt)
        nulled = {column: count for one in receipt.nulled for column, count in one.counts.items()}
        reasons = {column: why for one in receipt.nulled for column, why in one.reasons.items()}
        for column, values in source.columns.items():
            wanted = [expected(value, target) for value in values]
            for row, (value, want) in enumerate(zip(values, wanted, strict=True)):
                found = rows[row].get(column)
                if not (found is None if want is REJECTED else agrees(found, want, target)):
                    faults.append(f"{column} {value!r} as {target}: {found!r}, not {want!r}")
            if nulled.get(column, 0) != wanted.count(REJECTED):
                faults.append(f"{column} as {target}: {nulled.get(column, 0)} counted, not {wanted.count(REJECTED)}")
            if (column in reasons) != (REJECTED in wanted) or len(reasons.get(column, "a reason")) < 8:
                faults.append(f"{column} as {target}: the reason {reasons.get(column)!r}")
    assert faults == [], "\n".join(faults)
