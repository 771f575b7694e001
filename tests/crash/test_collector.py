"""An application in Go → a Collector → a pipeline that is killed → tables; on demand, with `CALVE_SDKS=1`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from calve.stop_point import VARIABLE
from crash.conftest import Doomed
from kit.running import PATIENCE_SECONDS
from services import opentelemetry, process
from sources.otlp.applications import COUNT, MAPS, Applications, numbers_of

pytestmark = [
    pytest.mark.crash,
    pytest.mark.spark,
    pytest.mark.skipif(not opentelemetry.is_wanted(), reason=f"{opentelemetry.VARIABLE} is not set"),
]


def test_what_goes_through_a_collector_is_in_the_tables_though_calve_is_killed(doomed, tmp_path: Path) -> None:
    port, own = process.free_ports(2)
    soon = dict.fromkeys(("flush_interval", "commit_interval"), "1s")
    sink = {"table_identifier": 'otel.${getMetadata("signal")}', "auto_create": True, **soon}
    source = {"otlp": {"port": port, "grpc_port": None}}
    job = doomed(json.dumps({"telemetry": {"source": source, "sink": [{"iceberg": sink}]}}))
    with Applications(tmp_path) as applications:
        collector = applications.collect("otlp_grpc", port, own)
        application = applications.send("go", "grpc", f"http://127.0.0.1:{own}")
        for point in ("log.after-append:3", "commit.after-swap:2"):
            job.start(environment={VARIABLE: point})
            job.has_died_at(point)
        job.start()
        assert application.wait(PATIENCE_SECONDS) == 0, applications.said()
        job.until(lambda: all({*numbers(job, signal)} == {*range(COUNT)} for signal in MAPS), "it tries again")
        collector.terminate()
        assert collector.wait(PATIENCE_SECONDS) == 0, applications.said()
    for signal in MAPS:
        assert len(numbers(job, signal)) <= 2 * COUNT, "only what had no answer is sent again"


def numbers(job: Doomed, signal: str) -> list[int]:
    """Compare the rows of a table with what was sent, and return their numbers."""
    if not job.catalog().table_exists(f"otel.{signal}"):
        return []
    return numbers_of(signal, job.rows(f"otel.{signal}").to_pylist(maps_as_pydicts="strict"), "go")
