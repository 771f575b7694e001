"""Fed pipelines with processors: their columns, keys and metadata are those of their own events, and faults name them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from calve.errors import SettingsError
from calve.pipeline import plugins
from calve.pipeline.branches import CompiledProcessors
from calve.pipeline.key_columns import key_notes
from calve.pipeline.plugins import PLUGINS
from calve.settings import PipelineSettings, SettingsErrors, parse_text
from calve.sources.database.own_targets import OwnTargets
from calve.sources.database.table import Column, DatabaseTable

YAML = """
shop:
  source: {postgres: {host: h, database: d, username: u}}
  processor:
    - FIRST
  route: [people: 'getMetadata("table_name") == "people"']
  sink:
    - iceberg: {table_identifier: 'all.${getMetadata("table_name")}'}
    - pipeline: {name: open, routes: [people]}
open:
  source: {pipeline: {name: shop}}
  processor:
    - SECOND
  sink:
    - iceberg: {table_identifier: 'open.${getMetadata("table_name")}'}
"""
FIRST = "mask: {key: 0123456789abcdef, columns: [{names: [email], action: hash}]}"
SECOND = "rename_keys: {entries: [{from_key: id, to_key: person}]}"
METADATA = {"table_name": pa.string()}


def pipeline(first: str = FIRST, second: str = SECOND, **changed: str) -> PipelineSettings:
    text = YAML.replace("FIRST", first).replace("SECOND", second)
    for old, new in changed.items():
        text = text.replace(old, new)
    [settings] = parse_text(text, PLUGINS).pipelines
    return settings


def table(name: str) -> DatabaseTable:
    key = Column("id", 1, "string", "text", 25, -1, is_key=True)
    return DatabaseTable("d", 7, "public", name, (key, Column("email", 2, "string", "text", 25, -1)))


def test_each_sink_has_the_effects_of_the_processors_on_its_way() -> None:
    first, second = CompiledProcessors(pipeline(), METADATA).effects
    assert first is None
    assert second is not None
    assert {name: column.source for name, column in second.of(["id", "email"]).items()} == {
        "email": "email",
        "person": "id",
    }
    both = CompiledProcessors(pipeline("delete_entries: {with_keys: [email]}"), METADATA).effects
    assert [[*effects.of(["id", "email"])] for effects in both if effects] == [["id"], ["person"]]


def test_a_table_of_the_source_goes_only_where_the_routes_before_its_branch_let_it() -> None:
    settings = pipeline()
    compiled = CompiledProcessors(settings, METADATA)
    [_, entry] = (compiled.before(sink)[0] for sink in settings.sinks)
    assert [gate.routes for gate in entry.gates] == [("people",)]
    by_value = CompiledProcessors(pipeline(**{'\'getMetadata("table_name") == "people"\'': "/id == 1"}), METADATA)
    assert by_value.before(settings.sinks[1])[0].gates == ()


def test_a_key_that_a_fed_pipeline_would_lose_is_refused_before_anything_is_made_in_the_database() -> None:
    settings = pipeline(second="lowercase_string: {with_keys: [id]}")
    targets = OwnTargets(plugins._context(settings, lambda _: ("", None)).shared_targets, settings.source.value, str)  # type: ignore[arg-type,return-value]
    with pytest.raises(SettingsError, match=r"the column id of the key of public\.people"):
        targets.require([table("people")])


@pytest.mark.parametrize(
    ("second", "why"),
    [
        (FIRST, "open.processor[0].mask: must be in shop, which reads the events"),
        ("grok: {match: {email: ['%{WORD:a}']}}", "open.processor[0].grok: cannot change rows of tables"),
        ("parse_json: {source: email}", "open.processor[0].parse_json: makes fields that no mask has seen"),
        (
            "add_entries: {entries: [{metadata_key: table_name, value: x}]}",
            "open.processor[0].add_entries: table_name is",
        ),
    ],
)
def test_what_a_fed_pipeline_cannot_do_is_refused_with_its_place(second: str, why: str) -> None:
    with pytest.raises(SettingsErrors) as refused:
        pipeline(second=second)
    assert why in str(refused.value)


def test_validate_tells_which_keys_a_fed_pipeline_changes() -> None:
    keyed = {"'open.${getMetadata(\"table_name\")}'": "open.people, identifier_columns: [person]"}
    assert list(key_notes(pipeline(**keyed))) == ["open.sink[0].iceberg: the key column person comes from id"]
    with pytest.raises(
        SettingsErrors, match=r"open\.sink\[0\]\.iceberg: id is in the key, and the processors rename it"
    ):
        pipeline(**{old: new.replace("[person]", "[id]") for old, new in keyed.items()})
