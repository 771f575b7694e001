"""The blocks of the pages, run as they are printed: each does what its page says."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest
from click.testing import CliRunner
from pyspark.sql import Row

import calve as api
from calve.cli.main import calve as command
from calve.engine import session
from kit.documents import paste, run_lines, runnable, yamls
from kit.running import Calve, until
from services.process import free_ports

pytestmark = pytest.mark.spark

ORDERS = """
orders:
  source: {file: {path: "in/*.ndjson"}}
  sink:
    - iceberg:
        table_identifier: "shop.${/kind}"
        auto_create: true
        column_types: {total: double}
        on_type_mismatch: dlq
"""
EVENTS = (
    {"id": 1, "kind": "orders", "total": 9.5},
    {"id": 2, "kind": "items"},
    {"id": 3, "kind": "orders", "total": "free"},
)
LINE = '203.0.113.7 - ada [31/Jan/2026:23:30:00 +0100] "GET /a?b=1 HTTP/1.1" 404 153'

Make = Callable[..., Calve]


def folder_of(calve: Make, yaml: str, events: tuple[object, ...] = ()) -> Calve:
    """Return a folder as a page supposes it: `orders.yaml`, and events in `in`."""
    job = calve(yaml)
    (job.folder / "orders.yaml").write_text(yaml)
    (job.folder / "in").mkdir()
    (job.folder / "in" / "a.ndjson").write_text("".join(json.dumps(event) + "\n" for event in events))
    return job


def listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5):
        return True
    return False


def send(job: Calve, port: int, *blocks: str) -> None:
    """Run the pipelines until the commands of the blocks have sent their events, to this port instead of 2021."""
    with job.running():
        until(lambda: listens(port), "the pipeline listens")
        for block in blocks:
            paste(block.replace(":2021", f":{port}").replace("curl ", "curl -sS --fail "), job.folder)


def ask_spark(job: Calve, block: str) -> list[Row]:
    """Ask the shared session what a block asks `spark-sql`, with its settings; the jars are there."""
    fresh = job.shared_spark().newSession()
    for name, value in re.findall(r"--conf (\S+?)=(\S+)", block):
        fresh.conf.set(name, re.sub(r"\blakehouse(?=/|$)", str(job.folder / "lakehouse"), value))
    [query] = re.findall(r'-e "(.*)"', block)
    return fresh.sql(query).collect()


def test_the_commands_of_the_readme_follow_each_other(calve: Make) -> None:
    [block] = runnable("README.md")
    before, posting, after = re.split(r"^(calve run .*\ncurl .*\n)", block, flags=re.MULTILINE)
    [port] = free_ports(1)
    job = folder_of(calve, yamls("README.md")[0].replace("http: {}", f"http: {{port: {port}}}"))
    (job.folder / "in" / "a.csv").write_text("id;total\n1;2\n".replace(";", ","))
    (job.folder / "a.ndjson").write_text(json.dumps(EVENTS[0]) + "\n")
    with contextlib.chdir(job.folder):
        assert CliRunner().invoke(command, ["init"], input="\n\n\n").exit_code == 0
    run_lines(job, before.removeprefix("calve init"))
    assert job.rows("shop.sales").num_rows == 1
    send(job, port, posting.splitlines()[1])
    printed = run_lines(job, after)
    assert job.rows("shop.orders").to_pylist() == [{"id": 1, "kind": "orders", "total": 9.5}]
    assert '"total": 9.5' in printed.replace('":', '": ').replace(":  ", ": ")


def test_dead_letters_are_shown_and_sent_again_and_all_events_into_new_tables(calve: Make) -> None:
    look, replay, again = runnable("docs/dead-letters.md")
    job = folder_of(calve, ORDERS, EVENTS)
    assert job.once() == 0, job.said()
    assert "'free' is not a valid double" in run_lines(job, re.sub(r"^\$ ", "", look, flags=re.MULTILINE))
    assert "1" in run_lines(job, replay)
    (job.folder / "orders-v2.yaml").write_text(ORDERS.replace("orders:", "orders-v2:").replace("shop.", "v2."))
    run_lines(job, again)
    assert job.rows("v2.items").num_rows == 1


def test_maintenance_changes_and_a_purge_work_on_these_tables(calve: Make) -> None:
    job = folder_of(calve, ORDERS, EVENTS)
    assert job.once() == 0, job.said()
    (job.folder / "in" / "b.ndjson").write_text(json.dumps(EVENTS[0]) + "\n")
    assert job.once() == 0, job.said()
    printed, commands = runnable("docs/changes.md")
    snapshots = [str(entry.snapshot_id) for entry in job.catalog().load_table("shop.orders").history()]
    for number, snapshot in zip(("4859623548962345", "48596", "71822"), (snapshots[0], *snapshots), strict=True):
        commands = re.sub(rf"\b{number}\b", snapshot, commands)
    change = json.loads(run_lines(job, commands).splitlines()[0])
    shown = json.loads(printed.replace(", …", ""))
    assert list(change) == list(shown)
    assert shown["metadata"].keys() <= {*change["metadata"], "document_id"}
    *_, spark = runnable("docs/read-tables.md")
    assert [row["id"] for row in ask_spark(job, spark)] == [1, 1]
    [block] = runnable("docs/maintenance.md")
    run_lines(job, block)
    purge, several = runnable("docs/changing.md")
    (job.folder / "pipelines").mkdir()
    (job.folder / "pipelines" / "orders.yaml").write_text(ORDERS)
    assert "orders: stopped" in run_lines(job, several.replace("/var/lib/calve", "calve-state"))
    subprocess.run([sys.executable, "-c", purge], cwd=job.folder, check=True)
    assert job.tables("shop") == ["shop.items"]


def test_a_request_and_one_with_tls_and_a_password_are_kept(calve: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALVE_HTTP_PASSWORD", "secret")
    plain, encrypted = runnable("docs/http.md")
    certificate, request = encrypted.splitlines()
    for yaml, *blocks in ((yamls("docs/http.md")[0], plain), (yamls("docs/http.md")[1], request)):
        [port] = free_ports(1)
        job = calve("", "http" if plain in blocks else "https")
        paste(certificate, job.folder)
        yaml = yaml.replace("http: {port: 2021", f"http: {{port: {port}").replace("/etc/calve", str(job.folder))
        job.configure(yaml.replace("host: 0.0.0.0", f"port: {port}"))
        send(job, port, *blocks)
        assert job.rows("shop.orders")["id"].to_pylist() == ([1, 2] if plain in blocks else [1])


def test_each_line_of_a_text_is_an_event(calve: Make) -> None:
    [block] = runnable("docs/logs.md")
    [port] = free_ports(1)
    job = calve(yamls("docs/http.md")[0].replace("2021", str(port)))
    (job.folder / "app.log").write_text("one\n\ntwo\n")
    send(job, port, block)
    assert job.rows("shop.orders")["message"].to_pylist() == ["one", "two"]


def test_a_pipeline_of_data_prepper_is_checked_and_tried(calve: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENSEARCH_PASSWORD", "secret")
    [block] = runnable("docs/from-data-prepper.md")
    job = calve(yamls("docs/from-data-prepper.md")[0])
    (job.folder / "sample.ndjson").write_text(json.dumps({"message": LINE}) + "\n")
    assert "line 1: logs.requests" in run_lines(job, block)


def test_a_connector_is_converted_and_checked(tmp_path: Path) -> None:
    commands, connector = runnable("docs/from-kafka-connect.md")
    (tmp_path / "connector.json").write_text(connector)
    assert "OK: 1 pipeline: orders" in paste(commands, tmp_path)


def test_what_the_page_of_python_shows_is_so(calve: Make, capsys: pytest.CaptureFixture[str]) -> None:
    run, thread, trial = runnable("docs/python.md")
    job = folder_of(calve, ORDERS.replace("shop.${/kind}", "shop.orders"), ({"id": 1}, {"id": 2}, {"id": 3}))
    with (job.folder / "in" / "a.ndjson").open("a") as events:
        events.write("no\n")
    names: dict[str, object] = {"threading": threading, "calve": api}
    with contextlib.chdir(job.folder), mock.patch.object(session, "stop"):
        exec(run, names)
        exec(f"{thread}\n{trial}\ntest_orders_go_to_their_table()", names)
    assert capsys.readouterr().out.splitlines() == re.findall(r"# (\{.*\}): ", run)


def test_a_variant_is_read_by_its_paths(calve: Make) -> None:
    [sql] = runnable("docs/types.md")
    job = calve(yamls("docs/types.md")[0])
    (job.folder / "events.ndjson").write_text('{"id": 1, "payload": {"user": {"name": "Ada"}}}\n')
    assert job.once() == 0, job.said()
    [row] = job.shared_spark().sql(sql.replace("shop.things", "lakehouse.shop.things")).collect()
    assert list(row) == [1, "Ada", '{"user":{"name":"Ada"}}']


def test_the_shell_completes_commands(tmp_path: Path) -> None:
    [block] = runnable("docs/deploy.md")
    assert "_calve_completion" in paste(f"{block}complete -p calve\n", tmp_path)
