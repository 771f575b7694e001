"""A wrong set-up ends a run at once, with one sentence and before anything is consumed; put right, all of it arrives."""

from __future__ import annotations

import json
import re
import urllib.request
from typing import Any

import pytest

from catalog.test_diagnose import HTML, server
from kit.running import PATIENCE_SECONDS, Calve
from services.process import free_ports

pytestmark = pytest.mark.spark

EVENTS = [{"id": number, "kind": f"k{number % 2}"} for number in range(20)]
JDBC = {"type": "jdbc", "jdbc.schema-version": "V1"}


def job(calve: Any, **sink: Any) -> Calve:
    made: Calve = calve("")
    (made.folder / "events.ndjson").write_text("".join(f"{json.dumps(event)}\n" for event in EVENTS))
    configure(made, **sink)
    return made


def configure(made: Calve, **sink: Any) -> None:
    settings = {"table_identifier": "db.t", "auto_create": True, **sink}
    source = {"file": {"path": "events.ndjson"}}
    made.configure(json.dumps({"p": {"source": source, "sink": [{"iceberg": settings}]}}))


def ends_at_once(made: Calve, sentence: str) -> None:
    """What may pass is given up after some tries; this is not tried again."""
    done = made.call("run", "pipelines.yaml", "--once", "--give-up-after", "1s", "--metrics-port", "0")
    assert done.exit_code == 1, done.output
    assert len(re.findall(rf"p error: .*{sentence}", done.stderr)) == 1, done.stderr
    assert "Given up" not in done.stderr
    assert "\tat " not in done.output
    assert made.dead_letters("p") == []


def sqlite(made: Calve, **more: str) -> dict[str, str]:
    return {**JDBC, "name": "lakehouse", "uri": f"jdbc:sqlite:{made.folder}/lakehouse/catalog.db", **more}


@pytest.mark.parametrize("table", ["db.t", "db.${/kind}"])
def test_a_warehouse_that_cannot_be_written_ends_the_run_and_its_events_arrive_once_it_is_put_right(
    calve: Any, table: str
) -> None:
    made = job(calve)
    configure(made, table_identifier=table, catalog=sqlite(made, warehouse="/proc/nowhere"))
    ends_at_once(made, "/proc/nowhere cannot be written: No such file or directory. Change its permissions")
    configure(made, table_identifier=table, catalog=sqlite(made, warehouse=f"{made.folder}/lakehouse"))
    assert made.once() == 0, made.said()
    assert sum(len(made.rows(name)) for name in made.tables("db")) == len(EVENTS)


def test_a_location_that_cannot_be_written_ends_the_run(calve: Any) -> None:
    ends_at_once(job(calve, table_location="/proc/nowhere"), "/proc/nowhere cannot be written")


@pytest.mark.parametrize("table", ["db.t", "db.${/kind}"])
def test_a_namespace_that_the_catalog_refuses_to_any_table_ends_the_run(calve: Any, table: str) -> None:
    made = job(calve)
    catalog = {"type": "hadoop", "warehouse": "sss://nowhere"}
    configure(made, table_identifier=table, catalog=catalog)
    ends_at_once(made, 'No FileSystem for scheme "sss"')


def test_a_server_that_is_no_catalog_ends_the_run(calve: Any) -> None:
    with server(200, HTML, b"<html>welcome</html>") as uri:
        made = job(calve, catalog={"type": "rest", "uri": uri})
        ends_at_once(made, f"{re.escape(uri)} is no Iceberg REST catalog: .*Correct `uri`")


@pytest.mark.parametrize(
    ("catalog", "sentence"),
    [
        (
            {"uri": "jdbc:sqlit:x.db", "warehouse": "w", **JDBC},
            "there is no JDBC driver for jdbc:sqlit:x.db.*extraClassPath",
        ),
        (
            {"catalog-impl": "org.example.Nothing"},
            "Cannot initialize Catalog implementation org.example.Nothing.*its jar",
        ),
        ({"type": "hadoop", "warehouse": "w", "io-impl": "org.example.Nothing"}, "org.example.Nothing.*its jar"),
        (
            {
                "uri": "jdbc:sqlite:FOLDER/c.db",
                "warehouse": "s3://b/x",
                "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
                **JDBC,
            },
            "Correct `warehouse`",
        ),
    ],
)
def test_a_catalog_that_cannot_be_opened_ends_the_run(calve: Any, catalog: dict[str, str], sentence: str) -> None:
    made = job(calve)
    configure(made, catalog={key: value.replace("FOLDER", str(made.folder)) for key, value in catalog.items()})
    ends_at_once(made, sentence)


def test_a_master_that_is_away_is_told_at_once(tmp_path: Any) -> None:
    made = Calve(tmp_path, "")
    job(lambda _: made)
    assert made.start("--once", "--master", "spark://127.0.0.1:1").wait(PATIENCE_SECONDS) == 1
    assert "Error: No Spark master answers at spark://127.0.0.1:1" in made.said()
    assert not (tmp_path / "calve-state").exists()


def test_a_run_says_where_it_listens_and_is_ready_once_it_does(calve: Any) -> None:
    [port] = free_ports(1)
    made = calve("")
    source = {"http": {"port": 0, "path": "/events"}}
    made.configure(
        json.dumps({"p": {"source": source, "sink": [{"iceberg": {"table_identifier": "a.b", "auto_create": True}}]}})
    )
    made.start("--metrics-port", str(port))
    answer = made.until(lambda: asked(port, "readyz", 200), "/readyz answers 200")
    assert answer == {"status": "ready", "pipelines": {"p": {"state": "waiting"}}}
    assert asked(port, "healthz", 200) == {"status": "ok"}
    said = [line.partition(" ")[2] for line in made.said().splitlines() if "compiled core" not in line]
    assert said[:3] == [
        "starting p",
        f"state is kept in {made.folder}/calve-state",
        f"p tables are in {made.folder}/lakehouse",
    ]
    assert any(re.fullmatch(r"p listens on http://127\.0\.0\.1:\d+/events", line) for line in said)
    assert made.stop() == 0


def asked(port: int, path: str, status: int) -> Any:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=10) as answer:
            return json.loads(answer.read()) if answer.status == status else None
    except OSError:
        return None
