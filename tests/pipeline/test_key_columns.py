"""What masks and processors do to keys is told by `validate`, and what would lose one is refused before anything begins."""

from __future__ import annotations

import json

import pytest

from calve.errors import SettingsError
from calve.pipeline import plugins
from calve.pipeline.key_columns import fill_notes, key_notes, remembering_notes
from calve.pipeline.plugins import PLUGINS
from calve.settings import PipelineSettings, SettingsErrors, parse_text
from calve.sources.database.own_targets import OwnTargets
from calve.sources.database.table import Column, DatabaseTable

YAML = """
p:
  source:
    {source}
  processor:
    - mask: {{key: 0123456789abcdef, columns: [{{names: [email], action: hash}}]}}
    - {processor}
  sink:
    - iceberg: {{table_identifier: a.b{key}}}
"""
FILE = "file: {path: in.ndjson, codec: {debezium: {}}}"
POSTGRES = "postgres: {host: h, database: d, username: u}"
RENAME = "rename_keys: {entries: [{from_key: email, to_key: person}]}"
MADE = "add_entries: {entries: [{key: whole, format: '${/email}-${/n}'}]}"


def pipeline(processor: str, *key: str, source: str = FILE) -> PipelineSettings:
    columns = f", identifier_columns: [{', '.join(key)}]" if key else ""
    [settings] = parse_text(YAML.format(source=source, processor=processor, key=columns), PLUGINS).pipelines
    return settings


@pytest.mark.parametrize(
    ("processor", "key", "why"),
    [
        (RENAME, "email", "email is in the key, and the processors rename it to person"),
        ("delete_entries: {with_keys: [email]}", "email", "email is in the key, and the processors remove it"),
        ("select_entries: {include_keys: [n]}", "email", "email is in the key, and the processors remove it"),
        (
            f"{RENAME}\n    - select_entries: {{include_keys: [n]}}",
            "person",
            "person is in the key, and the processors",
        ),
    ],
)
def test_validate_refuses_a_key_that_no_event_has_after_the_processors(processor: str, key: str, why: str) -> None:
    with pytest.raises(SettingsErrors) as refused:
        pipeline(processor, key)
    assert why in str(refused.value)


@pytest.mark.parametrize(
    ("processor", "key", "notes"),
    [
        (RENAME, "person", ["p.sink[0].iceberg: the key column person comes from email, is hashed by mask"]),
        (MADE, "whole", ["p.sink[0].iceberg: the key column whole comes from email and n, is hashed by mask"]),
        (RENAME, "n", []),
        ("convert_type: {key: n, type: string}", "n", ["p.sink[0].iceberg: the key column n becomes string"]),
        ("lowercase_string: {with_keys: [n]}", "n", ["p.sink[0].iceberg: the key column n becomes string"]),
    ],
)
def test_validate_tells_which_columns_of_keys_change(processor: str, key: str, notes: list[str]) -> None:
    assert list(key_notes(pipeline(processor, key))) == notes


@pytest.mark.parametrize(("more", "is_said"), [("", True), (', add_when: "/a == 1"', False)])
def test_validate_tells_what_partial_updates_do_not_keep(more: str, is_said: bool) -> None:
    added = f"add_entries: {{entries: [{{key: state, value: new{more}}}]}}"
    text = YAML.format(source=FILE, processor=added, key=", identifier_columns: [n], partial_updates: keep")
    [settings] = parse_text(text, PLUGINS).pipelines
    said = [
        "p.sink[0].iceberg: partial_updates: keep does not keep what processor[1].add_entries gives state to updates "
        "without a schema that lack it: set add_when"
    ]
    assert list(fill_notes(settings)) == (said if is_said else [])


def database_table(name: str) -> DatabaseTable:
    key = Column("email", 1, "string", "text", 25, -1, is_key=True)
    return DatabaseTable("d", 7, "public", name, (key, Column("n", 2, "int", "int", 23, -1)))


def test_a_database_is_checked_for_lost_keys_before_anything_is_made_there_and_a_new_table_stops_alone() -> None:
    settings = pipeline("lowercase_string: {with_keys: [email]}", source=POSTGRES)
    targets = OwnTargets(plugins._context(settings, lambda _: ("", None)).shared_targets, settings.source.value, str)
    with pytest.raises(SettingsError, match=r"the column email of the key of public\.t"):
        targets.require([database_table("t")])
    assert "the column email of the key of public.new" in targets.conflict(database_table("new"), [])
    good = pipeline(RENAME, source=POSTGRES)
    targets = OwnTargets(plugins._context(good, lambda _: ("", None)).shared_targets, good.source.value, str)
    targets.require([database_table("t")])
    assert targets.conflict(database_table("new"), []) == ""


@pytest.mark.parametrize(
    ("keys", "sink", "is_said"),
    [
        ("id", ", upsert: true, identifier_columns: [id]", True),
        ("id", ", upsert: true, identifier_columns: [id, day]", True),
        ("id/x", ", operation: 'op', identifier_columns: [id]", True),
        ("id", ", upsert: true", True),
        ("id", ", identifier_columns: from_key", True),
        ("id, version", ", upsert: true, identifier_columns: [id]", False),
        ("id", "", False),
    ],
)
def test_validate_tells_which_newer_rows_are_dropped_as_duplicates(keys: str, sink: str, is_said: bool) -> None:
    source = "kafka: {bootstrap_servers: [h], topics: [{name: t}]}"
    text = YAML.format(source=source, processor=f"deduplicate: {{keys: [{keys}]}}", key=sink)
    text = "\n".join(line for line in text.split("\n") if "mask" not in line)
    [settings] = parse_text(text, PLUGINS).pipelines
    found = list(remembering_notes(settings))
    assert len(found) == is_said
    assert all(
        "p.processor[0].deduplicate: drops later events of a key, which for p.sink[0].iceberg" in note for note in found
    )


@pytest.mark.parametrize(
    ("keys", "document_id", "is_said"),
    [
        ("id", "${id}", True),
        ("id", "${shop}-${id}", True),
        ("id, version", "${id}", False),
        ("id", '${getMetadata("kafka_offset")}', False),
        ("id", "", False),
    ],
)
def test_validate_tells_where_the_first_document_of_an_id_would_stay(
    keys: str, document_id: str, is_said: bool
) -> None:
    options = {"hosts": ["http://h:9200"], "index": "i", **({"document_id": document_id} if document_id else {})}
    source = {"kafka": {"bootstrap_servers": ["h"], "topics": [{"name": "t"}]}}
    steps = [{"deduplicate": {"keys": keys.split(", ")}}]
    text = json.dumps({"p": {"source": source, "processor": steps, "sink": [{"opensearch": options}]}})
    [settings] = parse_text(text, PLUGINS).pipelines
    assert len(list(remembering_notes(settings))) == is_said
