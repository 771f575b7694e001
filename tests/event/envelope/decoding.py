"""Decodes lists of envelopes, as tests have them."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from calve.event.envelope.decoder import DecodedEnvelopes, EnvelopeDecoder, Envelopes
from calve.event.envelope.exact import RequestedAttributes
from event.envelope.debezium import text

ABOUT = frozenset({"debezium_source_db", "debezium_source_table", "debezium_source_ts_ms", "debezium_op"})
WANTED = RequestedAttributes(ABOUT, frozenset({"id"}))
DECIMAL = "org.apache.kafka.connect.data.Decimal"
EXACT = {
    "date": ("int32", "io.debezium.time.Date", 20454, "2026-01-01"),
    "early": ("int32", "io.debezium.time.Date", -719162, "0001-01-01"),
    "millis_of_day": ("int32", "io.debezium.time.Time", 45296789, "12:34:56.789"),
    "micros_of_day": ("int64", "io.debezium.time.MicroTime", 45296789012, "12:34:56.789012"),
    "nanos_of_day": ("int64", "io.debezium.time.NanoTime", 45296789012345, "12:34:56.789012345"),
    "negative_time": ("int64", "io.debezium.time.MicroTime", -1, "-1"),
    "millis": ("int64", "io.debezium.time.Timestamp", 1529507596945, "2018-06-20T15:13:16.945"),
    "micros": ("int64", "io.debezium.time.MicroTimestamp", 1529507596945104, "2018-06-20T15:13:16.945104"),
    "whole": ("int64", "io.debezium.time.MicroTimestamp", 1529507596000000, "2018-06-20T15:13:16"),
    "before_1970": ("int64", "io.debezium.time.MicroTimestamp", -1, "1969-12-31T23:59:59.999999"),
    "nanos": ("int64", "io.debezium.time.NanoTimestamp", 1529507596945104001, "2018-06-20T15:13:16.945104001"),
    "infinity": ("int64", "io.debezium.time.MicroTimestamp", 9223371331200000000, "9223371331200000000"),
    "zoned": ("string", "io.debezium.time.ZonedTimestamp", "2018-06-20T13:37:03.123456Z", "2018-06-20T13:37:03.123456Z"),
    "zoned_time": ("string", "io.debezium.time.ZonedTime", "13:37:03.123Z", "13:37:03.123"),
    "zoned_offset": ("string", "io.debezium.time.ZonedTime", "13:37:03+00:00", "13:37:03"),
    "connect_date": ("int32", "org.apache.kafka.connect.data.Date", 0, "1970-01-01"),
    "connect_time": ("int32", "org.apache.kafka.connect.data.Time", 1, "00:00:00.001"),
    "connect_timestamp": ("int64", "org.apache.kafka.connect.data.Timestamp", 253402300799999, "9999-12-31T23:59:59.999"),
    "json": ("string", "io.debezium.data.Json", '{"a": [1, "é"]}', '{"a": [1, "é"]}'),
    "uuid": ("string", "io.debezium.data.Uuid", "0f8fad5b-d9cb-469f-a165-70867728950e", "0f8fad5b-d9cb-469f-a165-70867728950e"),
    "enum": ("string", "io.debezium.data.Enum", "red", "red"),
    "double": ("double", None, 12.5, 12.5),
    "null": ("int64", "io.debezium.time.MicroTimestamp", None, None),
}  # fmt: skip
"""Columns with logical types: schema, value, and the exact text."""


def events(values: list[bytes | None], keys: list[str | None] | None = None) -> pa.Table:
    columns = {"event": pa.array(values, pa.binary())}
    return pa.table(columns | ({"kafka_key": pa.array(keys, pa.string())} if keys else {}))


def decoded(values: list[Any], keys: list[str | None] | None = None, form: str = "debezium") -> DecodedEnvelopes:
    written = [one if one is None or isinstance(one, bytes) else text(one) for one in values]
    return EnvelopeDecoder(Envelopes(form, WANTED)).decode(events(written, keys))


def changes(found: DecodedEnvelopes) -> list[tuple[str, Any]]:
    return [(one["operation"], json.loads(one["event"])) for one in found.rows.to_pylist()]
