from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import NumberDataPoint
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from calve.compiled.otlp import SIGNALS, RequestPart, check, decode
from calve.sources.otlp.reader import promoted
from calve.sources.otlp.tables import TABLES
from sources.otlp.requests import REQUESTS, comparable, request_of, rows_of

ALL = (1 << 40, 1 << 40)


def decoded(signal: str, request: bytes, start: int = 0, most: tuple[int, int] = ALL) -> RequestPart:
    part = read(signal, request) if (start, most) == (0, ALL) else decode(signal, request, TABLES[signal], start, most)
    assert part is not None
    part.batch.validate(full=True)
    return part


def read(signal: str, request: bytes) -> RequestPart | None:
    """Decode a request, which a check answers in the same way."""
    part = decode(signal, request, TABLES[signal], 0, ALL)
    assert check(signal, request, ALL) == (part.counts if part else None)
    return part


@pytest.mark.parametrize("signal", SIGNALS)
def test_a_request_becomes_the_rows_that_opentelemetry_s_own_package_reads(signal: str) -> None:
    for seed in range(60):
        request = request_of(signal, seed)
        expected = rows_of(signal, request)
        part = decoded(signal, request.SerializeToString())
        assert part.counts == (len(expected), len(expected), 0, False)
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
        start = part.counts.records
        if not part.counts.has_more:
            break
    assert len(batches) > 8
    whole = pa.Table.from_batches([decoded(signal, joined).batch])
    assert comparable(pa.Table.from_batches(batches).to_pylist()) == comparable(whole.to_pylist())
    checked = check(signal, joined, ALL)
    assert checked is not None
    assert (checked.rows, checked.records) == (len(whole), start)


@pytest.mark.parametrize("signal", SIGNALS)
def test_any_bytes_are_rows_or_refused(signal: str) -> None:
    whole = request_of(signal, 5, records=3).SerializeToString()
    for at in range(0, len(whole), max(1, len(whole) // 300)):
        read(signal, whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        read(signal, whole[:at])
    assert read(signal, whole[:-1]) is None
    assert decoded(signal, b"").counts.rows == 0
    assert read(signal, b"{}") is None


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
        assert read("logs", body) is None


def test_a_text_that_is_not_utf_8_and_groups_without_end_are_refused() -> None:
    request = REQUESTS["traces"]()
    request.resource_spans.add().scope_spans.add().spans.add(name="name")
    whole = request.SerializeToString()
    assert decoded("traces", whole).counts.rows == 1
    assert read("traces", whole.replace(b"name", b"nam\xff")) is None
    assert read("traces", whole + b"\x7b" * 100_000) is None


def test_a_count_that_no_column_can_hold_is_refused_alone() -> None:
    request = REQUESTS["metrics"]()
    metrics = request.resource_metrics.add().scope_metrics.add().metrics
    for count, buckets in ((2**64 - 1, []), (1, [2**63]), (1, [2**63 - 1])):
        metrics.add(name="h").histogram.data_points.add(count=count, bucket_counts=buckets)
    point = metrics.add(name="e").exponential_histogram.data_points.add()
    point.positive.bucket_counts.append(2**63)
    part = decoded("metrics", request.SerializeToString())
    assert part.counts == (1, 4, 3, False)
    assert part.batch["bucket_counts"].to_pylist() == [[2**63 - 1]]


def test_a_record_with_lists_that_are_too_long_is_refused_alone() -> None:
    lists = ((100_000, 0), (100_001, 0), (99_999, 2), (1, 1))
    spans = [_part(2, _part(11, b"") * events + _part(13, b"") * links) for events, links in lists]
    part = decoded("traces", _part(1, _part(2, b"".join(spans))))
    assert part.counts == (2, 4, 2, False)
    assert [len(events) for events in part.batch["events"]] == [100_000, 1]
    many = 100_001
    points = [
        _part(5, _part(1, _part(5, b"") * many)),
        _part(11, _part(1, _part(6, b"") * many)),
        _part(9, _part(1, _part(6, bytes(8 * many)))),
        _part(9, _part(1, _part(7, bytes(8 * many)))),
        _part(10, _part(1, _part(9, _part(2, bytes(8 * many))))),
        _part(10, _part(1, _part(9, _part(2, bytes(100))))),
    ]
    part = decoded("metrics", _part(1, _part(2, b"".join(_part(2, point) for point in points))))
    assert (part.counts.rows, part.counts.refused) == (1, 5)


def test_fields_behind_very_many_others_count() -> None:
    request = REQUESTS["traces"]()
    for number in range(600):
        scope = request.resource_spans.add().scope_spans.add()
        scope.spans.add(name=str(number))
    span = scope.spans.add(name="first", events=[{"name": str(number)} for number in range(700)])
    for number in range(1500):
        span.attributes.add(key=f"k{number % 1000}").value.int_value = number
    later = Span(name="last", kind=2, status={"code": 2, "message": "m"}, flags=3, links=[{"flags": 1}])
    whole = span.SerializeToString() + later.SerializeToString()
    scope.spans.pop()
    body = request.SerializeToString() + _part(1, _part(2, _part(2, whole)))
    expected = rows_of("traces", REQUESTS["traces"].FromString(body))
    assert (len(expected), expected[-1]["span_name"], len(expected[-1]["span_attributes"])) == (601, "last", 1000)
    assert comparable(decoded("traces", body).batch.to_pylist()) == comparable(
        [{name: row[name] for name in TABLES["traces"].names} for row in expected]
    )


def test_very_many_points_of_a_metric_are_read_in_their_time() -> None:
    points = 200_000  # to look among all of them for each one took an hour
    metric = _part(1, b"m") + _part(7, _part(1, b"") * points + b"\x10\x02\x18\x01") + _part(3, b"ms")
    part = decode("metrics", _part(1, _part(2, _part(2, metric))), TABLES["metrics"], points - 1, (10, 1 << 40))
    checked = check("metrics", _part(1, _part(2, _part(2, metric))), ALL)
    assert part is not None
    assert checked is not None
    assert (part.counts.rows, checked.rows, checked.has_more) == (1, points, False)
    [row] = part.batch.select(["metric_name", "metric_unit", "aggregation_temporality", "is_monotonic"]).to_pylist()
    assert list(row.values()) == ["m", "ms", "Cumulative", True]


def test_a_field_of_another_wire_type_is_none_of_a_oneof() -> None:
    point = NumberDataPoint(as_int=7).SerializeToString() + b"\x20\x05"  # as_double as a varint
    metric = _part(5, _part(1, point)) + b"\x38\x01"  # sum as a varint
    body = _part(1, _part(2, _part(2, metric)))
    expected = rows_of("metrics", REQUESTS["metrics"].FromString(body))
    assert (len(expected), expected[0]["value_int"]) == (1, 7)
    assert decoded("metrics", body).batch["value_int"].to_pylist() == [7]


def test_a_body_of_tiny_fields_takes_little_memory() -> None:
    body = _part(1, _part(2, _part(2, _part(9, b"") * (4 << 20))))
    code = (
        "import resource, sys; from calve.compiled import otlp\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "body = sys.stdin.buffer.read(); before = peak()\n"
        "otlp.check('traces', body, (1 << 40, 1 << 30)); print(peak() - before)"
    )
    done = subprocess.run([sys.executable, "-c", code], input=body, capture_output=True, check=True)
    assert int(done.stdout) < 40 << 10, "kB; 32 bytes a field are 128 MB"


def _part(number: int, content: bytes) -> bytes:
    """Return a field of Protobuf."""
    length, digits = len(content), bytearray()
    while length > 0x7F:
        digits.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes([number << 3 | 2, *digits, length]) + content


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
