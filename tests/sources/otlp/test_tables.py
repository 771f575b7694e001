from __future__ import annotations

import pyarrow as pa
import pytest

from calve.compiled.otlp import SIGNALS, RequestPart, decode
from calve.sources.otlp.reader import promoted
from calve.sources.otlp.tables import TABLES
from sources.otlp.requests import REQUESTS, comparable, request_of, rows_of

ALL = (1 << 40, 1 << 40)


def decoded(signal: str, request: bytes, start: int = 0, most: tuple[int, int] = ALL) -> RequestPart:
    part = decode(signal, request, TABLES[signal], start, most)
    assert part is not None
    part.batch.validate(full=True)
    return part


@pytest.mark.parametrize("signal", SIGNALS)
def test_a_request_becomes_the_rows_that_opentelemetry_s_own_package_reads(signal: str) -> None:
    for seed in range(60):
        request = request_of(signal, seed)
        expected = rows_of(signal, request)
        part = decoded(signal, request.SerializeToString())
        assert (part.rows, part.refused, part.has_more) == (len(expected), 0, False)
        assert comparable(part.batch.to_pylist()) == comparable(
            [{name: row[name] for name in TABLES[signal].names} for row in expected]
        )


@pytest.mark.parametrize("signal", SIGNALS)
@pytest.mark.parametrize("most", [(1, 1 << 40), (3, 1 << 40), (1 << 40, 500)])
def test_the_parts_of_joined_requests_are_all_of_their_rows_in_order(signal: str, most: tuple[int, int]) -> None:
    joined = b"".join(request_of(signal, seed).SerializeToString() for seed in range(8))
    batches, start = [], 0
    while True:
        part = decoded(signal, joined, start, most)
        batches.append(part.batch)
        start = part.records
        if not part.has_more:
            break
    assert len(batches) > 8
    whole = pa.Table.from_batches([decoded(signal, joined).batch])
    assert comparable(pa.Table.from_batches(batches).to_pylist()) == comparable(whole.to_pylist())
    checked = decode(signal, joined, TABLES[signal], 0, ALL, keeps=False)
    assert checked is not None
    assert (checked.rows, checked.records) == (len(whole), start)


@pytest.mark.parametrize("signal", SIGNALS)
def test_any_bytes_are_rows_or_refused(signal: str) -> None:
    whole = request_of(signal, 5, records=3).SerializeToString()
    for at in range(0, len(whole), max(1, len(whole) // 300)):
        decode(signal, whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :], TABLES[signal], 0, ALL)
        decode(signal, whole[:at], TABLES[signal], 0, ALL)
    assert decode(signal, whole[:-1], TABLES[signal], 0, ALL) is None
    assert decoded(signal, b"").rows == 0
    assert decode(signal, b"{}", TABLES[signal], 0, ALL) is None


def test_values_nested_too_deep_are_refused() -> None:
    request = REQUESTS["logs"]()
    body = request.resource_logs.add().scope_logs.add().log_records.add().body
    for _ in range(20):
        body = body.array_value.values.add()
    deep = request.SerializeToString()
    assert decoded("logs", deep).batch["body"].to_pylist() == ["[" * 20 + "null" + "]" * 20]

    def nested(content: bytes, number: int) -> bytes:
        size, digits = len(content), bytearray()
        while size > 127:
            digits.append(size & 127 | 128)
            size >>= 7
        return bytes([number << 3 | 2, *digits, size]) + content

    for fields in ((5, 1), (6, 1, 2)):  # lists in lists, and maps in maps
        value = b"\x10\x01"
        for _ in range(2000):
            for field in reversed(fields):
                value = nested(value, field)
        body = nested(nested(nested(nested(value, 5), 2), 2), 1)
        assert decode("logs", body, TABLES["logs"], 0, ALL) is None


def test_a_text_that_is_not_utf_8_and_groups_without_end_are_refused() -> None:
    request = REQUESTS["traces"]()
    request.resource_spans.add().scope_spans.add().spans.add(name="name")
    whole = request.SerializeToString()
    assert decoded("traces", whole).rows == 1
    assert decode("traces", whole.replace(b"name", b"nam\xff"), TABLES["traces"], 0, ALL) is None
    assert decode("traces", whole + b"\x7b" * 100_000, TABLES["traces"], 0, ALL) is None


def test_a_count_that_no_column_can_hold_is_refused_alone() -> None:
    request = REQUESTS["metrics"]()
    metrics = request.resource_metrics.add().scope_metrics.add().metrics
    for count, buckets in ((2**64 - 1, []), (1, [2**63]), (1, [2**63 - 1])):
        metrics.add(name="h").histogram.data_points.add(count=count, bucket_counts=buckets)
    point = metrics.add(name="e").exponential_histogram.data_points.add()
    point.positive.bucket_counts.append(2**63)
    part = decoded("metrics", request.SerializeToString())
    assert (part.rows, part.refused, part.records) == (1, 3, 4)
    assert part.batch["bucket_counts"].to_pylist() == [[2**63 - 1]]


def test_promoted_attributes_are_the_record_s_before_those_of_its_resource() -> None:
    request = REQUESTS["traces"]()
    resource = request.resource_spans.add()
    resource.resource.attributes.add(key="http.route").value.string_value = "of the resource"
    resource.resource.attributes.add(key="n").value.int_value = 7
    spans = resource.scope_spans.add().spans
    spans.add().attributes.add(key="http.route").value.string_value = "own"
    spans.add()
    rows = promoted("traces", decoded("traces", request.SerializeToString()).batch, ["http.route", "n", "absent"])
    assert rows["http_route"].to_pylist() == ["own", "of the resource"]
    assert (rows["n"].to_pylist(), rows["absent"].to_pylist()) == (["7", "7"], [None, None])
