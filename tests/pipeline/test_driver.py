"""When the rows of a running pipeline become visible, with intervals that no test waits for."""

from __future__ import annotations

import json
import re
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from calve.observe.pause import pause, resume
from kit.running import Calve, post, until
from services.process import free_ports

pytestmark = pytest.mark.spark

HOURS = "flush_interval: 1h, commit_interval: 1h"
YAML = """
orders:
  source: {{file: {{path: in/*.ndjson, settle: 50ms, poll_interval: 50ms}}}}
  sink: [iceberg: {{table_identifier: shop.orders, auto_create: true, max_batch_bytes: 10kb, {hours}}}]
web:
  source: {{http: {{port: {port}}}}}
  sink: [iceberg: {{table_identifier: shop.web, auto_create: true, {hours}}}]
"""


@pytest.fixture
def port() -> int:
    return free_ports(1)[0]


@pytest.fixture
def calve(tmp_path: Path, port: int) -> Iterator[Calve]:
    (tmp_path / "in").mkdir()
    one = Calve(tmp_path, YAML.format(hours=HOURS, port=port))
    yield one
    one.end()


def write(calve: Calve, name: str, ids: range) -> None:
    (calve.folder / "in" / name).write_text("".join(json.dumps({"id": one, "text": "x" * 90}) + "\n" for one in ids))


def count(calve: Calve, table: str) -> int:
    catalog = calve.catalog()
    return catalog.load_table(table).scan().count() if catalog.table_exists(table) else 0


def test_a_backlog_and_the_first_events_are_visible_long_before_the_intervals_are_over(
    tmp_path: Path, port: int, spark: SparkSession
) -> None:
    calve = Calve(tmp_path, YAML.format(hours=HOURS, port=port), spark)
    (tmp_path / "in").mkdir()
    for number in range(5):
        write(calve, f"{number}.ndjson", range(number * 80, (number + 1) * 80))
    with calve.running():
        until(lambda: post(port, [{"id": 1}]) == 200, "the source listens")
        until(lambda: count(calve, "shop.orders") == 400, "all files are visible")
        until(lambda: count(calve, "shop.web") == 1, "the first event is visible")
        until(lambda: calve.status("orders").get("batches") == 5, "the status shows all batches")
        write(calve, "late.ndjson", range(400, 480))
        until(lambda: calve.status("orders")["lag_bytes"] > 0, "the late file waits")
    assert count(calve, "shop.orders") == 400

    with calve.running():
        until(lambda: count(calve, "shop.orders") == 480, "what waited at the start is visible")


UPSERT = """
orders:
  source: {file: {path: in/*.ndjson}}
  sink:
    - iceberg:
        {table_identifier: shop.orders, auto_create: true, upsert: true, identifier_columns: [id], max_batch_bytes: 10kb}
"""


def test_pyiceberg_reads_a_table_after_its_first_load_in_several_batches(tmp_path: Path, spark: SparkSession) -> None:
    (tmp_path / "in").mkdir()
    calve = Calve(tmp_path, UPSERT, spark)
    for number in range(3):
        write(calve, f"{number}.ndjson", range(number * 80, (number + 1) * 80))
    write(calve, "3.ndjson", range(40, 120))
    assert calve.once() == 0, calve.said()
    assert calve.status("orders")["batches"] == 4
    assert sorted(calve.rows("shop.orders").column("id").to_pylist()) == list(range(240))


def is_open(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def test_a_paused_pipeline_reads_nothing_until_it_resumes_and_the_dashboard_shows_both(calve: Calve, port: int) -> None:
    calve.configure(YAML.format(hours="flush_interval: 50ms, commit_interval: 50ms", port=port))
    state = str(calve.folder / "calve-state")
    pause(state, "orders")
    write(calve, "0.ndjson", range(80))
    pages = free_ports(1)[0]
    calve.start("--dashboard", "--dashboard-port", str(pages))

    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())

    def page(path: str) -> str:
        with browser.open(f"http://127.0.0.1:{pages}/{path}") as answer:
            return str(answer.read().decode())

    calve.until(lambda: calve.status("orders").get("paused") and calve.status("orders")["lag_bytes"], "it is paused")
    assert calve.status("orders")["events"] == 0
    calve.until(lambda: is_open(pages), "the dashboard is there, which starts beside the run")
    [first] = re.findall(rf"http://127.0.0.1:{pages}/(\S+)", calve.said())
    assert "Paused: it reads no events" in page(first)
    resume(state, "orders")
    calve.until(lambda: count(calve, "shop.orders") == 80, "the rows are visible")
    calve.until(lambda: calve.status("orders")["commits"], "the status shows the commit")
    orders = calve.status("orders")["tables"]["shop.orders"]
    assert orders["files"]["data_files"] >= orders["files"]["snapshots"] == orders["commits"] >= 1
    assert orders["files"]["last_maintenance"] is None
    assert "Paused" not in page("")
    assert "80 rows" in page("pipelines/orders")
    assert calve.stop() == 0
    with pytest.raises(urllib.error.URLError):
        page("")
