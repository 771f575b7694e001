"""What keeps a pipeline from starting: one sentence with the way out, and the exit code."""

from __future__ import annotations

import json
import socket

import pytest

from kit.running import Calve, post, until
from services.process import free_ports

pytestmark = pytest.mark.spark

YAML = """
web:
  source: {{http: {{port: {port}}}}}
  sink:
    - iceberg: {{table_identifier: out.web, auto_create: true, flush_interval: 100ms, commit_interval: 200ms}}
"""


@pytest.fixture
def calve(spark, tmp_path):
    calve = Calve(tmp_path, "", spark)
    yield calve
    calve.end()


def test_a_wrong_key_is_told_with_its_line_and_the_right_one(calve):
    calve.configure(YAML.format(port=1).replace("auto_create", "auto_craete"))
    assert calve.once() == 2
    assert "pipelines.yaml:5:" in calve.said()
    assert "auto_create" in calve.said()


def test_a_taken_port_is_told_and_ends_the_pipeline(calve):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        calve.configure(YAML.format(port=port))
        ran = calve.call("run", "pipelines.yaml", "--metrics-port", "0")
    assert ran.exit_code == 1
    assert str(port) in ran.output
    assert "Traceback" not in ran.output


def test_a_second_driver_is_refused_and_the_first_goes_on(calve, tmp_path):
    [port] = free_ports(1)
    calve.configure(YAML.format(port=port))
    first = calve.start()
    until(lambda: post(port, [{"id": 1}]) == 200, "the source listens")
    assert calve.once() == 1
    assert f"Another driver runs this pipeline: process {first.pid}" in calve.said()
    assert post(port, [{"id": 2}]) == 200
    calve.process = first
    assert calve.stop() == 0
    assert sorted(calve.rows("out.web").column("id").to_pylist()) == [1, 2]
    assert json.loads((tmp_path / "calve-state/web/status.json").read_text())["state"] == "stopped"
