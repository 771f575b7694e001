"""The mapping of an index for rows of an Iceberg table: from the table's types, not from the first document."""

from __future__ import annotations

import fnmatch
import json
from typing import Any

from calve.columns.fields import ALL_FIELDS, Fields
from calve.commit.mirror_defaults import new_defaults
from calve.errors import SinkRefusedError
from calve.sinks.opensearch.client import Client
from calve.sinks.opensearch.obstacles import field_hint
from calve.sources.source import SourceTable
from calve.table.kinds import Json, named
from calve.table.schema import names_by_id

__all__ = ["make_index", "mapping_of", "older_fields"]

_MADE = {"made_by": "calve"}
_SOURCES = "sources"
"""In the index's `_meta`: the names of a source table's columns by field id, and the table's UUID."""
_TEXT = {"type": "text", "fields": {"keyword": {"type": "keyword", "ignore_above": 256}}}
_DATE = {"type": "date", "ignore_malformed": True}
_TYPES: dict[Json, dict[str, Any]] = {
    "boolean": {"type": "boolean"},
    "integer": {"type": "long"},
    "float": {"type": "float", "ignore_malformed": True},
    "double": {"type": "double", "ignore_malformed": True},
    "date": _DATE,
    "timestamp": _DATE,
    "time": {"type": "keyword"},
    "string": _TEXT,
    "uuid": _TEXT,
    "decimal": {"type": "keyword"},
    "base64": {"type": "binary"},
}
"""By the form of values; a column of any other is mapped by its first document. A decimal is text with all its digits.
With `ignore_malformed` a document with NaN, an infinity or a year beyond those of OpenSearch arrives, with the value as
text in `_source`. The field is not indexed; the document's `_ignored` names it."""


def mapping_of(table: SourceTable, fields: Fields = ALL_FIELDS) -> dict[str, Any]:
    """Return the mapping for the rows of a table (JSON, Iceberg specification, appendix C); maps are left dynamic."""
    columns = [field for field in json.loads(table.schema_json)["fields"] if field["name"] in fields]
    names, (_, defaults) = names_by_id(table.schema_json), new_defaults(columns, {})
    noted = {table.name: {"uuid": table.uuid, "names": names, **({"defaults": defaults} if defaults else {})}}
    return {"_meta": {**_MADE, _SOURCES: noted}, "properties": _properties(columns)}


def older_fields(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Return sentences about fields of older documents that the table's columns no longer have, and about defaults.

    Args:
        before: The table's UUID, and the names of its columns by field id, when documents were written.
        now: The same, now.
    """
    if before.get("uuid") != now["uuid"]:
        return []
    had, has = before["names"], now["names"]
    numbers = {name: number for number, name in has.items()}
    sentences = []
    for number, name in had.items():
        if number in has and has[number] != name:
            sentences.append(f"{name} is now called {has[number]}")
        elif number not in has:
            sentences.append(f"{name} was dropped" + " and added again" * (name in numbers))
    for name, default in now.get("defaults", {}).items():
        if numbers.get(name) not in had:
            sentences.append(f"{name} was added, with the default {json.dumps(default)}, which they lack")
    return sentences


def make_index(client: Client, index: str, mapping: dict[str, Any], settings: dict[str, Any]) -> list[str]:
    """Create a missing index unless a template has its mapping; add fields to an existing one (driver).

    Returns:
        Sentences about columns that older documents of the index have under another name, or that were dropped.

    Raises:
        SinkUnavailableError: OpenSearch does not answer.
        SinkRefusedError: It refuses the index.
    """
    mapping_answer = client.request("GET", f"/{index}/_mapping")
    if mapping_answer.is_temporary:
        raise client.unavailable(f"does not show the index {index}", mapping_answer)
    if mapping_answer.status != 200:
        _create(client, index, mapping, settings)
        return []
    now = mapping["_meta"][_SOURCES]
    with client.understood():
        held: dict[str, dict[str, Any]] = json.loads(mapping_answer.data)
        meta = next(iter(held.values()))["mappings"].get("_meta", {})
        if not _MADE.items() <= meta.items():
            return []
        before = meta.get(_SOURCES, {})
        sentences = [text for name in now if name in before for text in older_fields(before[name], now[name])]
    changed = {"_meta": {**_MADE, _SOURCES: {**before, **now}}, "properties": mapping["properties"]}
    answer = client.request("PUT", f"/{index}/_mapping", json.dumps(changed).encode())
    if answer.is_temporary:
        raise client.unavailable(f"accepts no new fields of the index {index}", answer)
    return sentences


def _create(client: Client, index: str, mapping: dict[str, Any], settings: dict[str, Any]) -> None:
    if _has_template(client, index):
        return
    answer = client.request("PUT", f"/{index}", json.dumps({"mappings": mapping, "settings": settings}).encode())
    if answer.is_temporary:
        raise client.unavailable(f"cannot create the index {index}", answer)
    if answer.status >= 300 and b"resource_already_exists" not in answer.data:
        reason = answer.reason[:300]
        hint = field_hint(reason) or "Set your own mapping with template_content"
        raise SinkRefusedError(f"OpenSearch refuses the index {index}: {reason}", step="start", target=index, hint=hint)


def _has_template(client: Client, index: str) -> bool:
    """Return whether a template of either kind has a mapping for new indexes of this name."""
    simulated = client.request("POST", f"/_index_template/_simulate_index/{index}")
    with client.understood():
        if simulated.status == 200 and json.loads(simulated.data).get("template", {}).get("mappings"):
            return True
    legacy = client.request("GET", "/_template")
    with client.understood():
        templates = json.loads(legacy.data).values() if legacy.status == 200 else ()
        return any(
            template.get("mappings")
            and any(fnmatch.fnmatchcase(index, pattern) for pattern in template["index_patterns"])
            for template in templates
        )


def _properties(fields: list[dict[str, Any]]) -> dict[str, Any]:
    types = {field["name"]: _of(field["type"]) for field in fields}
    return {name: kind for name, kind in types.items() if kind is not None}


def _of(kind: Any) -> dict[str, Any] | None:
    if isinstance(kind, str):
        return _TYPES.get(named(kind).json)
    if kind["type"] == "struct":
        return {"properties": _properties(kind["fields"])}
    return _of(kind["element"]) if kind["type"] == "list" else {"type": "object"}
