from __future__ import annotations

import pytest

from sources.otlp.sdk import ATTRIBUTES, BODY_TEXTS, LOG_TEXTS, Application, texts
from sources.otlp.serving import Serve


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_what_the_sdk_sends_is_in_the_rows_with_values_of_every_type(serve: Serve, protocol: str) -> None:
    serving = serve()
    application = Application(protocol, "{}:{}".format(*serving.source.address))
    application.trace(2.5)
    application.log()
    application.measure()
    application.close()
    spans = {span.context.span_id: span for span in application.spans}
    rows = serving.rows("traces")
    assert len(rows) == len(spans) == 3 - 1
    for row in rows:
        span = spans[int(row["span_id"], 16)]
        assert int(row["trace_id"], 16) == span.context.trace_id
        assert row["parent_span_id"] == (f"{span.parent.span_id:016x}" if span.parent else None)
        assert row["timestamp"].timestamp() * 10**6 // 1 == span.start_time // 1000
        assert (row["timestamp_nano"], row["duration_nano"]) == (
            span.start_time % 1000,
            span.end_time - span.start_time,
        )
        assert (row["span_name"], row["span_kind"].upper()) == (span.name, span.kind.name)
        assert (row["status_code"].upper(), row["status_message"]) == (
            span.status.status_code.name,
            span.status.description,
        )
        assert dict(row["span_attributes"]) == texts(span.attributes)
        assert [(event["name"], dict(event["attributes"])) for event in row["events"]] == [
            (event.name, texts(event.attributes)) for event in span.events
        ]
        assert [(link["span_id"], dict(link["attributes"])) for link in row["links"]] == [
            (f"{link.context.span_id:016x}", texts(link.attributes)) for link in span.links
        ]
        assert (row["service_name"], row["scope_name"], row["scope_version"]) == ("shop", "shop.web", "1.2")
        assert dict(row["resource_attributes"])["host.name"] == "h1"
    logs = serving.rows("logs")
    assert [row["body"] for row in logs] == BODY_TEXTS
    assert all(dict(row["log_attributes"]) == texts(ATTRIBUTES) | LOG_TEXTS for row in logs)
    assert {(row["severity_text"], row["severity_number"], row["event_name"]) for row in logs} == {
        ("WARN", 13, "checkout")
    }
    points = {row["metric_name"]: row for row in serving.rows("metrics")}
    assert {name: (row["kind"], row["value"], row["sum"]) for name, row in points.items()} == {
        "orders": ("sum", 7.0, None),
        "open": ("sum", -2.5, None),
        "load": ("gauge", 0.75, None),
        "times": ("histogram", None, 12.5),
        "sizes": ("exponential_histogram", None, 3.0),
    }
    assert dict(points["orders"]["attributes"]) == texts(ATTRIBUTES)
    assert (points["orders"]["value_int"], points["orders"]["is_monotonic"]) == (7, True)
