"""JSON Schema of the YAML, for editors and tools: it takes what `parse` takes, as far as JSON Schema can say it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from calve.settings import units
from calve.settings.assemble import LISTS
from calve.settings.option import Declared, Option, declared, ignored_keys, summary
from calve.settings.parse import TOP_LEVEL
from calve.settings.pipeline import PipelineKeys, Plugins, SinkKeys
from calve.settings.shape import Choice, Either, Entries, Items, Leaf, Record, Shape, shape_of

__all__ = ["json_schema", "yaml_value"]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_ENVIRONMENT = {"type": "string", "pattern": r"\$\{(env|file):[^}]*\}"}
_TEXT: dict[str, Any] = {"type": ["string", "number", "boolean"]}
_DURATION = {"type": "string", "pattern": r"^\s*([0-9]+\s*(ms|s|m|h|d)|[Pp]\S*)\s*$|\$\{(env|file):"}
_SIZE = {"type": "string", "pattern": r"^\s*[0-9]+(\.[0-9]+)?\s*([bB]|[kmgtKMGT][bB])\s*$|\$\{(env|file):"}


def json_schema(plugins: Plugins) -> dict[str, Any]:
    """Describe a configuration file with these plugins (draft 2020-12)."""
    top = {name: {"description": "Accepted as in Data Prepper."} for name in TOP_LEVEL}
    return {
        "$schema": DIALECT,
        "title": "Calve pipelines",
        "type": "object",
        "properties": top,
        "additionalProperties": _pipeline(plugins),
        "minProperties": 1,
    }


def yaml_value(value: Any) -> Any:
    """Write a default as one would in YAML; None where there is nothing to show."""
    if isinstance(value, timedelta):
        return units.duration_text(value)
    if isinstance(value, tuple):
        return list(value)
    return value if isinstance(value, str | int | float | bool | list | dict) else None


def _pipeline(plugins: Plugins) -> dict[str, Any]:
    processors = {"type": ["array", "null"], "items": _plugin(plugins.processors, {})}
    route = {"type": "object", "minProperties": 1, "maxProperties": 1, "additionalProperties": _TEXT}
    routes = {
        "type": ["array", "null"],
        "items": route,
        "description": "Conditions by name: `- errors: '/status >= 500'`.",
    }
    sink = _plugin(plugins.sinks, _properties(SinkKeys))
    properties = _properties(PipelineKeys) | {
        "source": _plugin(plugins.sources, {}) | {"description": "Where events come from."},
        **dict.fromkeys(LISTS["processor"], processors),
        **dict.fromkeys(LISTS["route"], routes),
        "sink": {"type": "array", "minItems": 1, "items": sink, "description": "Where events go."},
    }
    return {
        "description": summary(PipelineKeys),
        "type": "object",
        "properties": properties,
        "required": ["source", "sink"],
        "additionalProperties": False,
    }


def _plugin(plugins: Mapping[str, type], shared: dict[str, Any]) -> dict[str, Any]:
    """A map with one plugin; `shared` are properties that each of them takes as well."""
    named = {name: _record(settings, shared) for name, settings in plugins.items()}
    return {
        "type": "object",
        "properties": named,
        "additionalProperties": False,
        "minProperties": 1,
        "maxProperties": 1,
    }


def _record(settings: type, shared: Mapping[str, Any] | None = None) -> dict[str, Any]:
    required = [option for option in declared(settings).values() if option.required]
    described: dict[str, Any] = {
        "description": summary(settings),
        "type": "object" if required else ["object", "null"],
        "properties": {**_properties(settings), **(shared or {})},
        "additionalProperties": False,
    }
    if required:
        described["allOf"] = [{"anyOf": [{"required": [name]} for name in option.names]} for option in required]
    return described


def _properties(settings: type) -> dict[str, Any]:
    ignored = {key: {"description": f"No effect: {reason}."} for key, reason in ignored_keys(settings).items()}
    return {name: _option(option) for option in declared(settings).values() for name in option.names} | ignored


def _option(option: Declared) -> dict[str, Any]:
    described = {"description": option.option.doc, **_shape(shape_of(option.type), option.option)}
    default = None if option.required else yaml_value(option.default)
    if shape_of(option.type) == Leaf("size") and default is not None:
        default = units.size_text(option.default)
    return described if default is None else {**described, "default": default}


def _shape(shape: Shape, option: Option) -> dict[str, Any]:
    match shape:
        case Leaf():
            return _leaf(shape, option)
        case Choice():
            values = [*shape.values, None] if "null" in shape.values else [*shape.values]
            return {"anyOf": [{"enum": values}, _ENVIRONMENT]}
        case Items():
            return {"type": "array", "items": _shape(shape.item, _elements(option)), **_limits("Items", option)}
        case Entries():
            inner = _shape(shape.value, _elements(option))
            return {"type": "object", "additionalProperties": inner, **_limits("Properties", option)}
        case Record():
            return _record(shape.settings)
        case Either():
            members = [_shape(member, option) for member in shape.shapes]
            return {"anyOf": [*members, {"type": "null"}] if shape.optional else members}


def _leaf(shape: Leaf, option: Option) -> dict[str, Any]:
    match shape.name:
        case "text" | "path":
            return {**_TEXT, **_limits("Length", option)}
        case "boolean":
            return {"anyOf": [{"type": "boolean"}, _ENVIRONMENT]}
        case "integer" | "number":
            return {"anyOf": [{"type": shape.name, **_limits("", option)}, _ENVIRONMENT]}
        case "duration":
            return {"anyOf": [_DURATION, {"type": "number", "minimum": 0}]} if option.unit else _DURATION
        case "size":
            return _SIZE
        case "anything":
            return {}


def _elements(option: Option) -> Option:
    return Option(secret=option.secret, unit=option.unit)


def _limits(what: str, option: Option) -> dict[str, Any]:
    """Return an option's limits as in JSON Schema: `minimum`, `minLength`, `minItems`, `minProperties`."""
    names = (f"min{what}", f"max{what}") if what else ("minimum", "maximum")
    return {
        name: limit for name, limit in zip(names, (option.minimum, option.maximum), strict=True) if limit is not None
    }
