"""A pipeline into OpenSearch, beside one into a table: routes, rejects, and a node that comes and goes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kit.hostile_events import FIELDS, TEXTS, hostile_event
from kit.running import Calve, post, until
from services.opensearch import OpenSearch
from services.process import free_ports
from services.relay import Relay
from services.scripted import Scripted

pytestmark = [pytest.mark.spark, pytest.mark.services]

YAML = """
shop:
  source:
    http: {{port: {port}}}
  route:
    - orders: '/kind == "order"'
  sink:
    - opensearch:
        hosts: ["{address}"]
        index: "shop-${{/kind}}"
        document_id: "${{/id}}"
        flush_timeout: -1
        exclude_keys: [secret]
        template_content: {{mappings: {{properties: {{n: {{type: integer}}}}}}}}
    - iceberg:
        table_identifier: shop.orders
        routes: [orders]
        auto_create: true
        flush_interval: 100ms
        commit_interval: 100ms
"""
ALONE = """
alone:
  source:
    file: {{path: "*.ndjson"}}
  sink:
    - opensearch: {{hosts: ["{address}"], index: alone, username: me, password: hunter2}}
"""


def test_documents_and_rows_go_their_ways_and_a_node_that_was_away_gets_all(
    spark: SparkSession, tmp_path: Path, opensearch: OpenSearch
) -> None:
    [port] = free_ports(1)
    relay = Relay(opensearch.port)
    calve = Calve(tmp_path / "calve", YAML.format(port=port, address=relay.endpoint), spark)
    try:
        relay.cut()
        with calve.running():
            until(lambda: "does not answer" in calve.said(), "the missing node is told")
            relay.mend()
            until(lambda: send(port, range(30)), "the source listens")
            until(lambda: rows(calve, "shop-order") == 10, "the first documents are there")
            relay.cut()
            assert send(port, range(30, 60))
            until(lambda: calve.said().count("does not answer") > 1, "the lost node is told")
            relay.mend()
            until(lambda: rows(calve, "shop-order") == 20, "it goes on by itself")
        check(calve, opensearch)
        replay(calve, opensearch)
    finally:
        calve.end()
        relay.close()


def send(port: int, numbers: range) -> bool:
    """Three kinds in turn; of the third, each tenth number has a text for a number."""
    kinds = ("order", "visit", "error")
    events = [{"id": n, "kind": kinds[n % 3], "n": "x" if n % 30 == 29 else n, "secret": 1} for n in numbers]
    return post(port, events) == 200


def rows(calve: Calve, name: str) -> int:
    return int(calve.status("shop").get("tables", {}).get(name, {}).get("rows", 0))


def check(calve: Calve, node: OpenSearch) -> None:
    good = [n for n in range(60) if n % 30 != 29]
    for at, kind in enumerate(("order", "visit", "error")):
        wanted = {str(n): {"id": n, "kind": kind, "n": n} for n in good if n % 3 == at}
        assert node.documents(f"shop-{kind}") == wanted
    assert sorted(calve.rows("shop.orders")["id"].to_pylist()) == list(range(0, 60, 3))
    letters = calve.dead_letters("shop")
    assert [(one["code"], one["table"], json.loads(one["event"])["id"]) for one in letters] == [
        ("SINK_REFUSED", "shop-error", 29),
        ("SINK_REFUSED", "shop-error", 59),
    ]
    assert "failed to parse field [n] of type [integer]" in letters[0]["reason"]
    assert json.loads(letters[0]["event"])["secret"] == 1


def replay(calve: Calve, node: OpenSearch) -> None:
    """Mended, the dead letters are sent again: they keep their place in the order, so a newer document stays."""
    node.call("PUT", f"shop-error/_doc/29?version={(1 << 62)}&version_type=external", {"newer": True})
    calve.configure((calve.folder / "pipelines.yaml").read_text().replace("[secret]", "[secret, n]"))
    done = calve.call("dlq", "replay", "pipelines.yaml")
    assert done.exit_code == 0, done.stderr
    found = node.documents("shop-error")
    assert found["29"] == {"newer": True}
    assert found["59"] == {"id": 59, "kind": "error"}
    assert len(found) == 20


HOSTILE = """
hostile:
  source:
    file: {{path: "*.ndjson"}}
  sink:
    - opensearch:
        hosts: ["{address}"]
        index: hostile
        document_id: "${{/id}}"
        template_content: {{mappings: {{properties: {{id: {{type: keyword}}}}}}}}
"""


def test_hostile_events_are_documents_or_dead_letters_each_and_stop_nothing(
    spark: SparkSession, tmp_path: Path, opensearch: OpenSearch
) -> None:
    calve = Calve(tmp_path, HOSTILE.format(address=opensearch.address), spark)
    events = [hostile_event(number) for number in range(len(FIELDS) + len(TEXTS))]
    ids = ["x" * 600, "a\u0000b", "marker"]
    events += [json.dumps({"id": id, "nested": {"a": 1}, "nested.a": 2}).encode() for id in ids]
    events = [event for event in events if event]
    (tmp_path / "0.ndjson").write_bytes(b"\n".join(events) + b"\n")
    assert calve.once() == 0, calve.said()
    documents, letters = opensearch.documents("hostile"), list(calve.dead_letters("hostile"))
    assert {"marker", "a\u0000b"} <= documents.keys()
    assert len(documents) + len(letters) == len(events)
    assert calve.status("hostile")["tables"]["hostile"]["rows"] == len(documents)


def test_a_wrong_password_ends_the_run_with_a_sentence_and_nothing_is_lost(spark: SparkSession, tmp_path: Path) -> None:
    with Scripted(lambda *_: (401, b"Unauthorized")) as server:
        calve = Calve(tmp_path, ALONE.format(address=server.address), spark)
        (tmp_path / "a.ndjson").write_text('{"id": 1}\n')
        try:
            assert calve.once() == 1
        finally:
            calve.end()
    assert "OpenSearch refuses the user me (401)" in calve.said()
    assert "Correct `username` and `password`" in calve.said()
    assert "Traceback" not in calve.said()
    assert "hunter2" not in calve.said()
