"""OpenTelemetry's SDK to tables, and the page's questions to them."""

from __future__ import annotations

import re

import pytest

from kit.documents import PAGES, yamls
from kit.running import Calve, until
from services.process import free_ports
from sources.otlp.sdk import ATTRIBUTES, BODIES, Application, texts

pytestmark = pytest.mark.spark
PAGE = "docs/otlp.md"


def test_the_page_s_pipeline_finds_the_slowest_traces_of_an_application(calve) -> None:
    [yaml] = yamls(PAGE)
    ports = free_ports(2)
    job: Calve = calve(yaml.replace("{promote", f"{{port: {ports[0]}, grpc_port: {ports[1]}, promote"))
    with job.running():
        until(lambda: f":{ports[1]}" in job.said(), "it listens")
        application = Application("grpc", f"127.0.0.1:{ports[1]}")
        for seconds in (0.25, 2.5, 0.5):
            application.trace(seconds)
        application.log()
        application.measure()
        application.close()
    slowest, whole = re.findall(r'calve sql "(.*)"', PAGES[PAGE])
    listed = job.call("sql", slowest)
    assert "2500" in next(line for line in listed.output.splitlines() if "GET /cart" in line), listed.output
    root = max(application.spans, key=lambda span: span.end_time - span.start_time)
    trace = f"{root.context.trace_id:032x}"
    assert trace in listed.output
    spans = job.call("sql", re.sub("[0-9a-f]{32}", trace, whole)).output
    assert ("SELECT" in spans, "/cart" in spans) == (True, True), spans
    tables = {name: job.catalog().load_table(f"otel.{name}") for name in ("traces", "logs", "metrics")}
    for table in tables.values():
        [partition] = table.spec().fields
        assert (partition.name, str(partition.transform)) == ("timestamp_day", "day")
        names = [table.schema().find_column_name(field.source_id) for field in table.sort_order().fields]
        assert names == ["service_name", "timestamp"]
    rows = {name: table.scan().to_arrow() for name, table in tables.items()}
    assert {name: len(own) for name, own in rows.items()} == {"traces": 6, "logs": len(BODIES), "metrics": 5}
    assert sorted(rows["traces"]["span_id"].to_pylist()) == sorted(
        f"{s.context.span_id:016x}" for s in application.spans
    )
    attributes = [dict(own) for own in rows["traces"]["span_attributes"].to_pylist() if own]
    assert attributes == [texts(ATTRIBUTES)] * 3
