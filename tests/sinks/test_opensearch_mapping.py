"""An index made for a table knows the table's columns by their ids, so that renamed and dropped ones are noticed."""

from __future__ import annotations

import json

import pytest

from calve.sinks.opensearch.client import Access, Client
from calve.sinks.opensearch.mapping import make_index, mapping_of, older_fields
from calve.sources.source import SourceTable
from services.opensearch import OpenSearch


def table(uuid: str = "u", **numbers: int) -> SourceTable:
    fields = [{"id": number, "name": name, "required": False, "type": "int"} for name, number in numbers.items()]
    return SourceTable("app.t", uuid, json.dumps({"type": "struct", "schema-id": 0, "fields": fields}))


@pytest.mark.services
def test_columns_that_older_documents_have_under_another_name_are_named_once_also_after_a_restart(
    opensearch: OpenSearch,
) -> None:
    changes = [
        (table(id=1, a=2, b=3), []),
        (table(id=1, a=2, b=3, c=4), []),
        (table(id=1, x=2, b=3, c=4), ["a is now called x"]),
        (table(id=1, x=3, b=2, c=4), ["x is now called b", "b is now called x"]),
        (table(id=1, x=3, b=5, c=4), ["b was dropped and added again"]),
        (table(id=1, x=3), ["c was dropped", "b was dropped"]),
        (table(id=1, x=3), []),
        (table("another", id=1, z=3), []),
    ]
    for columns, sentences in changes:
        client = Client(Access((opensearch.address,)))
        assert sorted(make_index(client, "renamed", mapping_of(columns), {})) == sorted(sentences)


@pytest.mark.services
def test_an_index_of_an_older_version_without_the_columns_ids_gets_them(opensearch: OpenSearch) -> None:
    client = Client(Access((opensearch.address,)))
    older = {"mappings": {"_meta": {"made_by": "calve"}, "properties": {}}}
    assert client.request("PUT", "/older", json.dumps(older).encode()).status == 200
    assert make_index(client, "older", mapping_of(table(id=1, a=2)), {}) == []
    assert make_index(client, "older", mapping_of(table(id=1, b=2)), {}) == ["a is now called b"]


@pytest.mark.services
def test_an_index_of_somebody_else_is_not_changed(opensearch: OpenSearch) -> None:
    client = Client(Access((opensearch.address,)))
    theirs = {"mappings": {"_meta": {"made_by": "them"}, "properties": {"id": {"type": "keyword"}}}}
    assert client.request("PUT", "/theirs", json.dumps(theirs).encode()).status == 200
    assert make_index(client, "theirs", mapping_of(table(id=1, a=2)), {}) == []
    assert json.loads(client.request("GET", "/theirs/_mapping").data)["theirs"] == theirs


def of_types(**types: str) -> SourceTable:
    fields = [
        {"id": number, "name": name, "required": False, "type": kind}
        for number, (name, kind) in enumerate(types.items(), 1)
    ]
    return SourceTable("app.t", "u", json.dumps({"type": "struct", "schema-id": 0, "fields": fields}))


@pytest.mark.services
def test_a_document_arrives_with_values_that_its_field_cannot_index_and_names_them(opensearch: OpenSearch) -> None:
    client = Client(Access((opensearch.address,)))
    columns = of_types(x="double", f="float", day="date", at="timestamptz")
    older = mapping_of(columns)
    older["properties"] = {"x": {"type": "double"}, "f": {"type": "float"}, "at": {"type": "date"}}
    assert client.request("PUT", "/nan", json.dumps({"mappings": older}).encode()).status == 200
    assert make_index(client, "nan", mapping_of(columns), {}) == []
    hostile = {"x": "NaN", "f": "-Infinity", "day": "12024-03-15", "at": "294247-01-10T04:00:54.775Z"}
    for number, document in enumerate(({"x": 1.5, "f": 2.5, "day": "2024-03-15"}, hostile)):
        assert client.request("PUT", f"/nan/_doc/{number}", json.dumps(document).encode()).status == 201
    assert opensearch.documents("nan")["1"] == hostile
    query = {"query": {"exists": {"field": "_ignored"}}}
    [hit] = json.loads(client.request("POST", "/nan/_search", json.dumps(query).encode()).data)["hits"]["hits"]
    assert (hit["_id"], sorted(hit["_ignored"])) == ("1", ["at", "day", "f", "x"])


def test_lists_and_structs_have_the_types_of_their_elements() -> None:
    nested = {"type": "struct", "fields": [{"id": 3, "name": "x", "required": False, "type": "double"}]}
    listed = {"type": "list", "element-id": 4, "element-required": False, "element": "float"}
    fields = [
        {"id": 1, "name": "s", "required": False, "type": nested},
        {"id": 2, "name": "l", "required": False, "type": listed},
    ]
    table = SourceTable("app.t", "u", json.dumps({"type": "struct", "schema-id": 0, "fields": fields}))
    assert mapping_of(table)["properties"] == {
        "s": {"properties": {"x": {"type": "double", "ignore_malformed": True}}},
        "l": {"type": "float", "ignore_malformed": True},
    }


def test_a_default_that_older_documents_lack_is_named() -> None:
    def noted(*fields: dict[str, object]) -> dict[str, object]:
        schema = {"type": "struct", "schema-id": 0, "fields": list(fields)}
        return dict(mapping_of(SourceTable("db.t", "u", json.dumps(schema)))["_meta"]["sources"]["db.t"])

    base = {"id": 1, "name": "id", "required": False, "type": "int"}
    new = {"id": 2, "name": "v", "required": False, "type": "string", "initial-default": "é"}
    inside = {"id": 4, "name": "n", "required": False, "type": "int", "initial-default": 0}
    struct = {"id": 3, "name": "s", "required": False, "type": {"type": "struct", "fields": [inside]}}
    assert older_fields(noted(base), noted(base, new, struct)) == [
        'v was added, with the default "\\u00e9", which they lack',
        "s.n was added, with the default 0, which they lack",
    ]
    assert older_fields(noted(base, new), noted(base, new)) == []
