"""Writes a pipeline as YAML for people who may not see its secrets: the options as given, without their comments.

`${env:NAME}` and `${file:PATH}` stay as they were written. The value of a secret option is left out, and so is what is
secret by its key, by its place in an address, or because another option has it, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml  # type: ignore[import-untyped]

from calve.credentials import is_secret_key, without_credentials
from calve.settings.node import YamlNode
from calve.settings.option import declared
from calve.settings.pipeline import Plugins
from calve.settings.shape import Either, Entries, Items, Record, Shape, shape_of

__all__ = ["MASK", "masked_yaml"]

MASK = "…"
"""Stands for a secret."""
MOST_CHARACTERS = 64 << 10
_VARIABLE = re.compile(r"\$\{(env|file):[^}]*\}")
_OPEN = (
    frozenset(("type", "catalog-impl", "name", "uri", "warehouse", "prefix", "io-impl", "client.region", "s3.region"))
    | frozenset(("s3.endpoint", "s3.path-style-access", "scope", "oauth2-server-uri", "security.protocol"))
    | frozenset(("path", "dbtable", "subscribe", "streamName", "kafka.bootstrap.servers", "url", "driver", "user"))
)
"""Properties of catalogs and clients, and options of Spark's sources, that are no secrets."""
_PLUGINS = {"source": "sources", "processor": "processors", "processors": "processors", "sink": "sinks"}


def masked_yaml(pipelines: Mapping[str, YamlNode], plugins: Plugins) -> str:
    """Return pipelines as YAML without their secrets, at most `MOST_CHARACTERS`.

    Args:
        pipelines: The node of each, by name.
        plugins: What they may use.
    """
    tree = {name: _pipeline(node, plugins) for name, node in pipelines.items()}
    text: str = yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, width=float("inf"))
    is_long = len(text) > MOST_CHARACTERS
    return f"{text[:MOST_CHARACTERS]}\n# and so on: this is only the beginning\n" if is_long else text


def _pipeline(node: YamlNode, plugins: Plugins) -> Any:
    if not isinstance(node.value, dict):
        return _open(node)
    return {
        key: _plugin(child, getattr(plugins, _PLUGINS[key])) if key in _PLUGINS else _open(child)
        for key, child in node.value.items()
    }


def _plugin(node: YamlNode, settings: Mapping[str, type]) -> Any:
    if isinstance(node.value, list):
        return [_plugin(item, settings) for item in node.value]
    if not isinstance(node.value, dict):
        return _open(node)
    return {
        name: _record(settings[name], child) if name in settings else _secret(child)
        for name, child in node.value.items()
    }


def _record(settings: type, node: YamlNode) -> Any:
    if not isinstance(node.value, dict):
        return _open(node)
    options = {name: option for option in declared(settings).values() for name in option.names}
    values: dict[str, Any] = {}
    for key, child in node.value.items():
        option = options.get(key)
        if option is not None and option.option.secret:
            values[key] = _secret(child)
        else:
            values[key] = _shaped(shape_of(option.type), child) if option else _by_key(key, child)
    return values


def _shaped(shape: Shape, node: YamlNode) -> Any:
    shapes = shape.shapes if isinstance(shape, Either) else (shape,)
    for member in shapes:
        if isinstance(member, Record) and isinstance(node.value, dict):
            return _record(member.settings, node)
        if isinstance(member, Items) and isinstance(node.value, list):
            return [_shaped(member.item, item) for item in node.value]
        if isinstance(member, Entries) and isinstance(node.value, dict):
            return {key: _by_key(key, child) for key, child in node.value.items()}
    return _open(node)


def _by_key(key: str, node: YamlNode) -> Any:
    return _secret(node) if is_secret_key(key) else _open(node)


def _open(node: YamlNode) -> Any:
    """Return a value that is no secret as a whole."""
    if isinstance(node.value, dict):
        return {key: _by_key(key, child) for key, child in node.value.items()}
    if isinstance(node.value, list):
        return [_open(item) for item in node.value]
    if node.from_environment:
        return without_credentials(node.text)
    return without_credentials(node.value) if isinstance(node.value, str) else node.value


def _secret(node: YamlNode) -> Any:
    if isinstance(node.value, dict):
        return {
            key: _open(child) if key in _OPEN and not isinstance(child.value, dict | list) else _secret(child)
            for key, child in node.value.items()
        }
    if isinstance(node.value, list):
        return [_secret(item) for item in node.value]
    if node.from_environment and _VARIABLE.fullmatch(node.text):
        return node.text
    return None if node.value is None else MASK
