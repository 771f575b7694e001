"""On a real node: documents are what a dictionary says, whatever is sent twice or comes late."""

from __future__ import annotations

import json
import os
import random
import uuid
from typing import Any

import pyarrow as pa
import pytest

from calve.columns.fields import ALL_FIELDS
from calve.event.document_version import versions
from calve.record.written import IndexDocuments
from calve.sinks.opensearch.client import Client, access_of
from calve.sinks.opensearch.documents import Documents, Writing
from calve.sinks.opensearch.lines import compile_shape
from calve.sinks.opensearch.settings import OpenSearchSettings
from calve.sinks.opensearch.template import prepare
from services.opensearch import OpenSearch

pytestmark = pytest.mark.services

HISTORIES = int(os.environ.get("CALVE_HISTORIES", "4"))
MOMENT = 17_900_000_000


class Target:
    """An index of its own, and a sink that writes to it."""

    def __init__(self, node: OpenSearch, **settings: Any) -> None:
        self.node = node
        self.index = f"test-{uuid.uuid4().hex[:12]}"
        self.settings = OpenSearchSettings(hosts=[node.address], index=self.index, **settings)
        self.counts = IndexDocuments(self.index, 0, 0)

    def prepare(self) -> None:
        prepare(Client(access_of(self.settings)), self.settings)

    def send(self, moment: int, events: list[dict[str, Any]], only: slice = slice(None)) -> list[tuple[int, str, str]]:
        """Deliver a batch, or a part of it, as a task does; give row, code and reason of the rejects."""
        shape = compile_shape(self.settings, (), "p-")
        writing = Writing(
            access_of(self.settings), shape, self.settings.bulk_bytes, self.settings.document_version_type
        )
        documents = Documents(writing, ALL_FIELDS)
        table = pa.table(
            {
                "json": pa.array(map(json.dumps, events), pa.string()),
                "event_version": versions(MOMENT + moment, (0, 1), 0, len(events)),
            }
        )
        rejects = documents.write(self.index, table[only]).to_pylist()
        [self.counts] = documents.written()
        return [(one["row"], one["code"], one["reason"]) for one in rejects]

    def documents(self) -> dict[str, Any]:
        return self.node.documents(self.index)


def test_events_without_an_id_are_documents_once_however_often_they_are_sent(opensearch: OpenSearch) -> None:
    target = Target(opensearch)
    events = [{"n": number} for number in range(3000)]
    assert target.send(1, events, slice(0, 1700)) == []
    assert target.send(1, events) == []
    assert (target.counts.rows, target.counts.superseded) == (3000, 0)
    assert sorted(one["n"] for one in target.documents().values()) == list(range(3000))


def test_rejects_of_several_requests_are_told_by_their_rows(opensearch: OpenSearch) -> None:
    mappings = {"properties": {"n": {"type": "integer"}, "t": {"enabled": False, "type": "object"}}}
    target = Target(opensearch, bulk_size=1, template_content={"mappings": mappings})
    target.prepare()
    bad = [3, 17, 39]
    events = [{"n": "x" if number in bad else number, "t": {"y": "z" * 100_000}} for number in range(40)]
    assert [row for row, _, _ in target.send(1, events)] == bad
    assert sorted(one["n"] for one in target.documents().values()) == sorted({*range(40)} - {*bad})


def test_old_events_never_overwrite_newer_ones(opensearch: OpenSearch) -> None:
    target = Target(opensearch, document_id="${/id}", action="${/do}")
    target.send(
        5, [{"do": "index", "id": "a", "n": 5}, {"do": "index", "id": "b", "n": 5}, {"do": "delete", "id": "c"}]
    )
    assert target.send(3, [{"do": "index", "id": id_, "n": 3} for id_ in "abc"] + [{"do": "delete", "id": "a"}]) == []
    assert target.counts.superseded == 4
    assert {id_: one["n"] for id_, one in target.documents().items()} == {"a": 5, "b": 5}


def test_of_two_changes_of_a_document_in_a_batch_the_last_one_stays(opensearch: OpenSearch) -> None:
    target = Target(opensearch, document_id="${/id}")
    events = [{"id": number % 10, "n": number} for number in range(500)]
    target.send(1, events)
    assert {int(id_): one["n"] for id_, one in target.documents().items()} == {n: 490 + n for n in range(10)}


def test_a_version_of_the_events_own_decides_and_an_equal_one_is_written(opensearch: OpenSearch) -> None:
    target = Target(opensearch, document_id="${/id}", document_version="${/v}")
    target.send(1, [{"id": "a", "v": 7, "n": 1}, {"id": "a", "v": 6, "n": 2}, {"id": "b", "v": 1, "n": 1}])
    target.send(2, [{"id": "a", "v": 5, "n": 3}, {"id": "b", "v": 1, "n": 2}])
    assert {id_: one["n"] for id_, one in target.documents().items()} == {"a": 1, "b": 2}


@pytest.mark.parametrize("kind", ["external", "external_gte"])
def test_documents_beside_one_that_is_refused_are_counted_once(opensearch: OpenSearch, kind: Any) -> None:
    mappings = {"properties": {"n": {"type": "integer"}}}
    target = Target(
        opensearch, document_id="${/n}", document_version_type=kind, template_content={"mappings": mappings}
    )
    target.prepare()
    assert len(target.send(1, [{"n": 1}, {"n": "x"}, {"n": 3}])) == 1
    assert (target.counts.rows, target.counts.superseded) == (2, 0)
    assert target.send(0, [{"n": 1}]) == []
    assert (target.counts.rows, target.counts.superseded) == (0, 1)


def test_an_update_goes_upon_the_newest_document_and_not_upon_a_stale_one_of_its_batch(opensearch: OpenSearch) -> None:
    target = Target(opensearch, document_id="${/id}", document_version="${/v}", action="${/do}")
    target.send(1, [{"do": "index", "id": "a", "v": 5, "p": 5, "q": 5}])
    target.send(2, [{"do": "index", "id": "a", "v": 3, "p": 3}, {"do": "update", "id": "a", "v": 7, "q": 7}])
    assert bare(target.documents()["a"]) == {"p": 5, "q": 7}


def test_documents_that_do_not_fit_the_mapping_are_rejected_and_the_rest_is_there(opensearch: OpenSearch) -> None:
    mappings = {"dynamic": "strict", "properties": {"n": {"type": "integer"}}}
    target = Target(opensearch, template_content={"mappings": mappings}, number_of_replicas=0)
    target.prepare()
    rejects = target.send(1, [{"n": 1}, {"n": "x"}, {"n": 2}, {"m": 1}, {"n": 1 << 40}])
    assert [(row, code) for row, code, _ in rejects] == [(1, "SINK_REFUSED"), (3, "SINK_REFUSED"), (4, "SINK_REFUSED")]
    assert rejects[0][2].startswith("mapper_parsing_exception: failed to parse field [n] of type [integer]")
    assert rejects[1][2].startswith("strict_dynamic_mapping_exception")
    assert sorted(one["n"] for one in target.documents().values()) == [1, 2]
    settings = opensearch.call("GET", f"{target.index}/_settings")[target.index]["settings"]["index"]
    assert settings["number_of_replicas"] == "0"


def test_routing_and_ingest_pipeline_reach_opensearch(opensearch: OpenSearch) -> None:
    opensearch.call("PUT", "_ingest/pipeline/mark", {"processors": [{"set": {"field": "marked", "value": True}}]})
    target = Target(opensearch, document_id="${/id}", routing="${/tenant}", pipeline="mark")
    target.send(1, [{"id": "a", "tenant": "x"}])
    assert target.documents() == {"a": {"id": "a", "tenant": "x", "marked": True}}
    found = opensearch.call("GET", f"{target.index}/_doc/a?routing=x")
    assert found["_routing"] == "x"


def test_create_and_update_of_what_is_there_or_is_not_are_told(opensearch: OpenSearch) -> None:
    target = Target(opensearch, document_id="${/id}", action="${/do}")
    batch = [
        {"do": "create", "id": "a", "n": {"x": 1, "y": 1}},
        {"do": "create", "id": "a", "n": 2},
        {"do": "update", "id": "a", "n": {"y": 2, "z": {"q": 1.10}}},
        {"do": "update", "id": "b", "n": 1},
        {"do": "upsert", "id": "c", "k": 1},
        {"do": "upsert", "id": "c", "m": 2},
        {"do": "merge", "id": "c"},
    ]
    rejects = target.send(1, batch)
    assert [(row, code) for row, code, _ in sorted(rejects)] == [
        (1, "SINK_REFUSED"),
        (3, "SINK_REFUSED"),
        (6, "UNKNOWN_OPERATION"),
    ]
    found = target.documents()
    assert found["a"]["n"] == {"x": 1, "y": 2, "z": {"q": 1.1}}
    assert (found["c"]["k"], found["c"]["m"]) == (1, 2)
    assert "b" not in found


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_a_random_history_with_parts_sent_twice_gives_what_a_dictionary_says(opensearch: OpenSearch, seed: int) -> None:
    chance = random.Random(seed)
    actions = ("index", "delete") if seed % 3 == 0 else ("index", "create", "update", "upsert", "delete")
    target = Target(opensearch, document_id="${/id}", action="${/do}")
    oracle: dict[str, Any] = {}
    for moment in range(1, 8):
        batch = [
            {"do": chance.choice(actions), "id": str(chance.randrange(6)), chance.choice("pq"): chance.randrange(1000)}
            for _ in range(chance.randrange(1, 40))
        ]
        told = {row for row, event in enumerate(batch) if not applied(oracle, event)}
        tries = chance.randrange(3)
        for _ in range(tries):  # killed after a part of it, or after all
            target.send(moment, batch, slice(0, chance.randrange(1, len(batch) + 1)))
        rejects = {row for row, _, _ in target.send(moment, batch)}
        assert tries or told == rejects, f"seed {seed}, batch {moment}"
        assert {id_: bare(one) for id_, one in target.documents().items()} == oracle, f"seed {seed}, batch {moment}"


def applied(oracle: dict[str, Any], event: dict[str, Any]) -> bool:
    """Apply an event as OpenSearch's own actions do; say whether it could be."""
    id_, fields = event["id"], bare(event)
    match event["do"]:
        case "delete":
            oracle.pop(id_, None)
        case "create" if id_ in oracle:
            return False
        case "update" if id_ not in oracle:
            return False
        case "update" | "upsert":
            oracle[id_] = oracle.get(id_, {}) | fields
        case _:
            oracle[id_] = fields
    return True


def bare(event: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in event.items() if name in "pq"}
