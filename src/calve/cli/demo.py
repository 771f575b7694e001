"""`calve demo`: a pipeline from HTTP to Iceberg, run and shown, that ends by itself."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from calve.cli.demo_events import requests
from calve.errors import CalveError
from calve.observe.humanize import harmless
from calve.observe.report import PipelineReport

if TYPE_CHECKING:
    from pyiceberg.table import Table

__all__ = ["demo"]

EVENTS = 4_000
_PATIENCE_SECONDS = 90
_YAML = """\
shop:
  source:
    http:
      port: {port}
  sink:
    - iceberg:
        table_identifier: "shop.${{/kind}}"   # one table for each kind of event
        auto_create: true                    # create tables from the events
        schema_evolution: true               # add a column for each new field
        partition_by: ["bucket(4, id)"]
        flush_interval: 500ms
        commit_interval: 1s
"""

_GO_ON = """\
  cd {folder}
  {calve} run shop.yaml        # Ctrl-C commits and exits; kill -9 loses nothing
  curl -d '[{{"id": 1, "kind": "orders", "total": 9.5}}]' localhost:{port}/log/ingest
  {calve} dashboard            # web pages; status shows the same as text
  {calve} dlq show             # and: status, dlq list, doctor, --help"""


@click.command(short_help="Run a small pipeline and show its results.")
@click.option(
    "--folder",
    default="calve-demo",
    show_default=True,
    type=click.Path(path_type=Path),
    help="Folder of the demo; it is recreated.",
)
def demo(folder: Path) -> None:
    """Run a pipeline from HTTP into Iceberg tables, send it some thousand events, and show the result.

    One folder contains everything: the pipeline's YAML, the tables and the state. The command ends by itself.
    """
    folder = folder.absolute()
    if (folder / "shop.yaml").exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    port = _free_port()
    (folder / "shop.yaml").write_text(_YAML.format(port=port))
    _say(f"The pipeline, {folder / 'shop.yaml'}:\n")
    click.echo((folder / "shop.yaml").read_text())
    _say("$ calve run shop.yaml")
    with _running(folder, port) as process:
        bodies = requests(EVENTS)
        _send(port, bodies[: len(bodies) // 2])
        _wait(folder, process, EVENTS // 2)
        _say("The second half of the events has a new field, referrer")
        _send(port, bodies[len(bodies) // 2 :])
        report = _wait(folder, process, EVENTS)
    _show(folder, report, port)


def _send(port: int, bodies: list[bytes]) -> None:
    started = time.monotonic()
    for body in bodies:
        _post(port, body)
    seconds = time.monotonic() - started
    _say(f"sent {EVENTS // 2:,} events in {len(bodies)} requests, each answered after it was on disk: {seconds:.2f} s")


@contextmanager
def _running(folder: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "calve", "run", "shop.yaml", "--metrics-port", "0"]
    process = subprocess.Popen(command, cwd=folder, start_new_session=True)
    try:
        _until(lambda: _healthy(port), process, "the pipeline did not start")
        yield process
        process.send_signal(signal.SIGTERM)  # drains: commits what was accepted, then ends
        if process.wait(_PATIENCE_SECONDS) != 0:
            raise CalveError("The pipeline failed at its end", step="demo", hint="See its messages above")
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def _wait(folder: Path, process: subprocess.Popen[bytes], count: int) -> PipelineReport:
    """Wait until so many events are committed or rejected."""
    report = PipelineReport("shop")

    def done() -> bool:
        nonlocal report
        path = folder / "calve-state" / "shop" / "status.json"
        if path.exists():
            report = PipelineReport.from_dict(json.loads(path.read_text()))
        return report.rows + sum(report.rejects.values()) >= count

    _until(done, process, "the events were not committed in time")
    return report


def _until(condition: Callable[[], bool], process: subprocess.Popen[bytes], complaint: str) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not condition():
        if process.poll() is not None or time.monotonic() > deadline:
            raise CalveError(
                f"The demo failed: {complaint}", step="demo", hint="Run `calve doctor` to see what is missing"
            )
        time.sleep(0.05)


def _show(folder: Path, report: PipelineReport, port: int) -> None:
    from pyiceberg.catalog.sql import SqlCatalog  # here, so that `calve demo --help` is fast

    catalog = SqlCatalog("lakehouse", uri=f"sqlite:///{folder}/lakehouse/catalog.db", warehouse=f"{folder}/lakehouse")
    _say("\nThe tables, read by PyIceberg from the embedded catalog, without Calve and without a JVM:")
    for identifier in sorted(catalog.list_tables("shop")):
        _show_table(catalog.load_table(identifier))
    _say("\nThe rejects, with their reasons (calve dlq show):")
    seen: set[str] = set()
    for path in sorted((folder / "calve-state" / "shop" / "dlq").glob("[!_.]*.ndjson")):
        for entry in map(json.loads, path.read_text().splitlines()):
            if entry["code"] not in seen:
                click.echo(f"  {entry['code']}: {harmless(entry['reason'])}\n    {harmless(entry['event'][:110])}")
            seen.add(entry["code"])
    counts = ", ".join(f"{count} {code}" for code, count in sorted(report.rejects.items()))
    refused = sum(report.rejects.values())
    _say(f"\n{report.rows:,} rows committed + {refused} rejects ({counts}) = {EVENTS:,} events sent.")
    if report.freshness_seconds is not None:
        click.echo(f"Freshness: an event was visible at most {report.freshness_seconds:.1f} s after it arrived.")
    _say("\nNext steps:")
    click.echo(_GO_ON.format(folder=folder.name, calve=Path(sys.argv[0]).absolute(), port=port))


def _show_table(table: Table) -> None:
    rows = table.scan().to_arrow()
    columns = ", ".join(rows.column_names)
    files = len(table.inspect.files())
    click.echo(f"\n{click.style('.'.join(table.name()), bold=True)}  {len(rows):,} rows, {files} files")
    click.echo(f"  columns: {columns}")
    for row in rows.slice(0, 2).to_pylist():
        click.echo(f"  {json.dumps(row, default=str)}")
    for entry in table.snapshots():
        summary = entry.summary.additional_properties if entry.summary else {}
        added, batch = summary.get("added-records", 0), summary.get("calve.batch")
        click.echo(f"  snapshot {entry.snapshot_id}: +{added} rows, through batch {batch}")


def _say(text: str) -> None:
    click.echo(click.style(text, fg="cyan"))


def _post(port: int, body: bytes) -> None:
    address = f"http://127.0.0.1:{port}/log/ingest"
    request = urllib.request.Request(address, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        answer.read()


def _healthy(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2) as answer:
            return int(answer.status) == 200
    except (urllib.error.URLError, OSError):
        return False


def _free_port() -> int:
    """Return 2021, or another port if 2021 is in use."""
    for wanted in (2021, 0):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", wanted))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise CalveError("No port is free", step="demo")
