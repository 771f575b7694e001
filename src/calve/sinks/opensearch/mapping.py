"""The mapping of an index for rows of an Iceberg table: from the table's types, not from the first document."""

from __future__ import annotations

import fnmatch
import json
from typing import Any

from calve.columns.fields import ALL_FIELDS, Fields
from calve.errors import SinkRefusedError, SinkUnavailableError
from calve.sinks.opensearch.client import Client

__all__ = ["make_index", "mapping_of"]

_MADE = {"made_by": "calve"}
_TEXT = {"type": "text", "fields": {"keyword": {"type": "keyword", "ignore_above": 256}}}
_TYPES: dict[str, dict[str, Any]] = {
    "boolean": {"type": "boolean"},
    "int": {"type": "long"},
    "long": {"type": "long"},
    "float": {"type": "float"},
    "double": {"type": "double"},
    "date": {"type": "date"},
    "timestamp": {"type": "date"},
    "timestamptz": {"type": "date"},
    "time": {"type": "keyword"},
    "string": _TEXT,
    "uuid": _TEXT,
    "decimal": {"type": "keyword"},
    "binary": {"type": "binary"},
    "fixed": {"type": "binary"},
}
"""By the first word of a type's text. A decimal is text with all its digits; `binary` accepts Base64."""


def mapping_of(schema_json: str, fields: Fields = ALL_FIELDS) -> dict[str, Any]:
    """Return the mapping for the rows of a schema (JSON, Iceberg specification, appendix C); maps are left dynamic."""
    columns = [field for field in json.loads(schema_json)["fields"] if field["name"] in fields]
    return {"_meta": _MADE, "properties": _properties(columns)}


def make_index(client: Client, index: str, mappings: dict[str, Any], settings: dict[str, Any]) -> None:
    """Create a missing index unless a template has its mapping; add fields to an existing one (driver).

    Raises:
        SinkUnavailableError: OpenSearch does not answer.
        SinkRefusedError: It refuses the index.
    """
    found = client.request("GET", f"/{index}/_mapping")
    if found.status == 200:
        held: dict[str, dict[str, Any]] = json.loads(found.data)
        known = next(iter(held.values()))["mappings"]
        if known.get("_meta") == _MADE:
            client.request("PUT", f"/{index}/_mapping", json.dumps({"properties": mappings["properties"]}).encode())
        return
    if _has_template(client, index):
        return
    made = client.request("PUT", f"/{index}", json.dumps({"mappings": mappings, "settings": settings}).encode())
    if made.status >= 500 or made.status == 429:
        raise SinkUnavailableError(f"OpenSearch at {client.name} cannot create an index: {made.status}", step="start")
    if made.status >= 300 and b"resource_already_exists" not in made.data:
        reason = made.data.decode(errors="replace")[:300]
        hint = "Set your own mapping with template_content"
        raise SinkRefusedError(f"OpenSearch refuses the index {index}: {reason}", step="start", target=index, hint=hint)


def _has_template(client: Client, index: str) -> bool:
    """Return whether a template of either kind has a mapping for new indexes of this name."""
    simulated = client.request("POST", f"/_index_template/_simulate_index/{index}")
    if simulated.status == 200 and json.loads(simulated.data).get("template", {}).get("mappings"):
        return True
    legacy = client.request("GET", "/_template")
    templates = json.loads(legacy.data).values() if legacy.status == 200 else ()
    return any(
        one.get("mappings") and any(fnmatch.fnmatchcase(index, pattern) for pattern in one["index_patterns"])
        for one in templates
    )


def _properties(fields: list[dict[str, Any]]) -> dict[str, Any]:
    found = {field["name"]: _of(field["type"]) for field in fields}
    return {name: kind for name, kind in found.items() if kind is not None}


def _of(kind: Any) -> dict[str, Any] | None:
    if isinstance(kind, str):
        return _TYPES.get(kind.partition("(")[0].partition("[")[0].strip())
    if kind["type"] == "struct":
        return {"properties": _properties(kind["fields"])}
    return _of(kind["element"]) if kind["type"] == "list" else {"type": "object"}
