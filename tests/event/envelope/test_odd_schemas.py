"""Whatever a schema of Kafka Connect holds, each record is a row, a reject, or counted as skipped."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from calve.event.envelope.decoder import EnvelopeDecoder, Envelopes
from calve.event.keyed.decoder import KeyedDecoder, RecordKeys

KINDS = ["int8", "int64", "double", "boolean", "string", "bytes", "struct", "array", "map", "odd", None, 5]
LOGICAL = [
    "org.apache.kafka.connect.data.Decimal", "org.apache.kafka.connect.data.Timestamp", "io.debezium.time.NanoTimestamp",
    "io.debezium.data.VariableScaleDecimal", "io.debezium.data.geometry.Point", "io.debezium.data.Uuid", None, 7,
]  # fmt: skip
NAMES = st.sampled_from(["id", "a", "b", "\ud800", "", 5])
VALUES = st.recursive(
    st.sampled_from([None, True, 1, -1.5, 10**30, 2**63, "", "AQ==", "x", "2026-01-01T00:00:00Z", "\ud800"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["id", "a", "scale", "value"]), inner),
    max_leaves=4,
)
OTHER = st.sampled_from([None, 5, "int32", [], {}])
PARAMETERS = st.sampled_from([{"scale": "2"}, {"scale": "x"}, {"scale": "99999999999"}, {"scale": 2}, 5])


def schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    fields = st.lists(st.tuples(NAMES, inner), max_size=3).map(
        lambda pairs: [{**(below if isinstance(below, dict) else {}), "field": name} for name, below in pairs]
    )
    more = {"name": st.sampled_from(LOGICAL), "parameters": PARAMETERS, "doc": OTHER, "default": VALUES}
    below = {"fields": fields | OTHER, "items": inner, "keys": inner, "values": inner}
    return st.fixed_dictionaries({"type": st.sampled_from(KINDS)}, optional={**more, **below})


SCHEMAS = st.recursive(OTHER, schemas, max_leaves=5)
TEXTS = st.fixed_dictionaries({"schema": SCHEMAS, "payload": VALUES}).map(json.dumps)


NUMBER_AS_NAME = {"type": "struct", "fields": [{"field": "id", "type": "string", "name": 7}]}
NO_ITEMS = {"type": "struct", "fields": [{"field": "id", "type": "array", "items": []}]}
EXAMPLES = [
    json.dumps({"schema": schema, "payload": {"id": value}})
    for schema, value in ((NUMBER_AS_NAME, "x"), (NO_ITEMS, [1]))
]


@pytest.mark.parametrize("form", ["connect_json", "debezium"])
@example(EXAMPLES)
@given(st.lists(TEXTS, min_size=1, max_size=4))
def test_each_record_with_an_odd_schema_is_a_row_or_a_reject(form: Any, texts: list[str]) -> None:
    events = pa.table({"event": pa.array([text.encode() for text in texts], pa.binary())})
    decoded = EnvelopeDecoder(Envelopes(form)).decode(events)
    assert len(decoded.rows) + len(decoded.rejects) + decoded.skipped == len(texts)


@given(st.lists(st.tuples(TEXTS, VALUES.map(json.dumps) | st.none()), min_size=1, max_size=4))
def test_each_record_with_an_odd_key_is_a_row_or_a_reject(records: list[tuple[str, str | None]]) -> None:
    keys, values = zip(*records, strict=True)
    columns = {"event": pa.array([value and value.encode() for value in values], pa.binary())}
    keyed = KeyedDecoder(RecordKeys("id")).decode(pa.table({**columns, "kafka_key": pa.array(keys, pa.string())}))
    assert len(keyed.rows) + len(keyed.rejects) == len(records)
