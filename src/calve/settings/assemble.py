"""Builds one pipeline from its node: source, processors, routes and sinks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import takewhile
from typing import Any

from calve.settings.bind import INVALID, Binder
from calve.settings.connectors import Ends
from calve.settings.leaf import scalar_text
from calve.settings.node import YamlNode, kind, locate, paths
from calve.settings.option import declared
from calve.settings.pipeline import (
    DEFAULT_ROUTE,
    GateSettings,
    PipelineKeys,
    PipelineSettings,
    Plugin,
    Plugins,
    SinkEntry,
    SinkKeys,
)
from calve.settings.problems import SettingsProblem, shown, unknown

__all__ = ["LISTS", "NOT_SUPPORTED", "Assembly"]

LISTS = {"processor": ("processor", "processors"), "route": ("route", "routes")}
"""Keys of a pipeline that have two spellings."""
NOT_SUPPORTED = {
    "tags_target_key": "is not supported: tags are not written; a route can ask for them with hasTags()",
    "forward_to": "is not supported: use a second sink with a route instead",
}
"""Keys of a sink that Calve refuses, with the reason."""


class Assembly:
    """Builds one pipeline.

    Args:
        plugins: What it may use.
        name: The pipeline's name.

    Attributes:
        binder: Collects the errors and warnings.
        ends: Valid source and sinks, even if the pipeline is invalid; None if the node is not a map.
    """

    def __init__(self, plugins: Plugins, name: str) -> None:
        self.binder = Binder()
        self.ends: Ends | None = None
        self._plugins = plugins
        self._name = name

    def pipeline(self, node: YamlNode) -> PipelineSettings | None:
        """Return the pipeline, or None if something is wrong."""
        if not isinstance(node.value, dict):
            self.binder.wrong(node.location, self._name, f"expected a map with `source` and `sink`, found {kind(node)}")
            return None
        own = [*declared(PipelineKeys)]
        parts = ["source", *LISTS["processor"], *LISTS["route"], "sink"]
        self.binder.known_keys(node, self._name, {*own, *parts}, [*own, "source", "processor", "route", "sink"])
        keys = self.binder.record(PipelineKeys, _only(node, own), self._name)
        source = self._source(node)
        processors = self._with_added_fields(source, self._processors(self._spelled(node, "processor")))
        routes = self._routes(self._spelled(node, "route"))
        sinks = self._sinks(node, routes)
        locations = _locations(node)
        self.ends = Ends(self._name, _sound([source])[0], _sound(sinks), locations)
        if "buffer" in node.value:
            message = "is ignored: Calve needs no buffer between source and sinks"
            self.binder.warnings.append(SettingsProblem(node.keys["buffer"], self._path("buffer"), message))
        if self.binder.problems or keys is INVALID:
            return None
        return PipelineSettings(
            name=self._name,
            source=source,
            sinks=sinks,
            routes=routes,
            processors=processors,
            workers=keys.workers,
            delay=keys.delay,
            file=node.at.file,
            line=node.at.line,
            locations=locations,
            notify=tuple(keys.notify),
            otlp=keys.otlp,
        )

    def _source(self, node: YamlNode) -> Any:
        child = self._child(node, "source")
        return self._plugin(child, "source", self._plugins.sources) if child else INVALID

    def _processors(self, node: YamlNode | None) -> list[Any]:
        if node is None or node.value is None:
            return []
        items = self._items(node, "processor")
        return [self._plugin(item, f"processor[{index}]", self._plugins.processors) for index, item in enumerate(items)]

    def _with_added_fields(self, source: Any, processors: list[Any]) -> list[Any]:
        """Return the processors, with one behind the masks for the fields that options of the source add."""
        attribute_by_key = getattr(source.value, "metadata_fields", {}) if source is not INVALID else {}
        if not attribute_by_key or INVALID in processors or self._plugins.adding is None:
            return processors
        masks = [*takewhile(lambda plugin: plugin.name == "mask", processors)]
        added = Plugin("add_entries", self._plugins.adding(attribute_by_key), source.path, source.line)
        return [*masks, added, *processors[len(masks) :]]

    def _sinks(self, node: YamlNode, routes: dict[str, str]) -> list[Any]:
        child = self._child(node, "sink")
        items = self._items(child, "sink") if child else []
        if child and child.value == []:
            self._wrong(child, "sink", "needs at least one sink")
        return [self._sink(item, f"sink[{index}]", routes) for index, item in enumerate(items)]

    def _sink(self, item: YamlNode, path: str, routes: dict[str, str]) -> Any:
        named = self._named(item, path, "sink", self._plugins.sinks)
        if named is None:
            return INVALID
        name, node = named
        here = f"{path}.{name}"
        for key in NOT_SUPPORTED.keys() & node.keys.keys():
            self.binder.wrong(node.keys[key], self._path(f"{here}.{key}"), NOT_SUPPORTED[key])
        shared = [*declared(SinkKeys)]
        common = self.binder.record(SinkKeys, _only(node, shared), self._path(here))
        self._check_routes(node, here, routes)
        others = [*shared, *NOT_SUPPORTED]
        value = self.binder.record(self._plugins.sinks[name], _without(node, others), self._path(here), shared)
        if common is INVALID:
            return INVALID
        if value is not INVALID:
            for key, message in common.oddities(getattr(value, "needs", dict)()):
                self.binder.warnings.append(SettingsProblem(locate(node, key), self._path(f"{here}.{key}"), message))
        lists: dict[str, Any] = {key: tuple(getattr(common, key)) for key in shared}
        gates = (GateSettings(self._name, routes, lists["routes"]),) if lists["routes"] else ()
        return SinkEntry(name, value, here, node.at.line, self._name, gates, **lists)

    def _check_routes(self, node: YamlNode, path: str, routes: dict[str, str]) -> None:
        given = node.value.get("routes") if isinstance(node.value, dict) else None
        for index, item in enumerate(given.value if given and isinstance(given.value, list) else []):
            if not isinstance(item.value, dict | list) and scalar_text(item) not in (*routes, DEFAULT_ROUTE):
                message = unknown("route", scalar_text(item), [*routes, DEFAULT_ROUTE])
                self._wrong(item, f"{path}.routes[{index}]", message)

    def _routes(self, node: YamlNode | None) -> dict[str, str]:
        routes: dict[str, str] = {}
        for index, item in enumerate(self._items(node, "route") if node and node.value is not None else []):
            path = f"route[{index}]"
            if not isinstance(item.value, dict) or len(item.value) != 1:
                self._wrong(item, path, f"expected one route as `name: condition`, found {kind(item)}")
                continue
            name, condition = next(iter(item.value.items()))
            self._route(name, condition, f"{path}.{name}", routes)
        return routes

    def _route(self, name: str, node: YamlNode, path: str, routes: dict[str, str]) -> None:
        text = scalar_text(node)
        if name == DEFAULT_ROUTE:
            self.binder.wrong(node.at, self._path(path), "this name is reserved for events that match no route")
        elif name in routes:
            self.binder.wrong(node.at, self._path(path), f"the route {shown(name)} appears twice")
        else:
            routes[name] = text
            self._check_condition(node, text, path)

    def _check_condition(self, node: YamlNode, text: str, path: str) -> None:
        if isinstance(node.value, dict | list) or not text.strip():
            self._wrong(node, path, f"expected a condition, found {kind(node)}")
            return
        if self._plugins.condition and not node.broken:
            self.binder.passes(self._plugins.condition, text, node.location, self._path(path))

    def _plugin(self, node: YamlNode, path: str, plugins: Mapping[str, type]) -> Any:
        named = self._named(node, path, path.partition("[")[0], plugins)
        if named is None:
            return INVALID
        name, child = named
        here = f"{path}.{name}"
        value = self.binder.record(plugins[name], child, self._path(here))
        if hasattr(value, "plugin"):  # another plugin by other keys
            name, value = value.plugin()
        return Plugin(name, value, here, child.at.line)

    def _named(self, node: YamlNode, path: str, what: str, plugins: Mapping[str, type]) -> tuple[str, YamlNode] | None:
        """Return the name and the settings of the one plugin in a map."""
        if not isinstance(node.value, dict) or not node.value:
            self._wrong(
                node, path, f"expected a {what} by name, e.g. `{min(plugins, default='name')}:`, found {kind(node)}"
            )
            return None
        name, *more = node.value
        if more and name in plugins and not node.value[name].value and not plugins.keys() & set(more):
            message = f"indent it below {name}, as an option of it"
            for option in more:
                self.binder.wrong(node.value[option].at, self._path(f"{path}.{option}"), message)
            return None
        if more:
            self._wrong(node, path, f"takes one {what}, found {', '.join(node.value)}")
        for plugin_name, child in node.value.items():
            if plugin_name not in plugins:
                refused = self._plugins.refused.get(what, {}).get(plugin_name)
                self.binder.wrong(
                    child.at, self._path(f"{path}.{plugin_name}"), refused or unknown(what, plugin_name, plugins)
                )
        return (name, node.value[name]) if name in plugins else None

    def _spelled(self, node: YamlNode, key: str) -> YamlNode | None:
        children = node.value if isinstance(node.value, dict) else {}
        given = [spelling for spelling in LISTS[key] if spelling in children]
        if len(given) > 1:
            self.binder.wrong(
                node.keys[given[1]], self._path(key), f"{given[1]} means the same as {given[0]}; set only one"
            )
        return children[given[0]] if given else None

    def _child(self, node: YamlNode, key: str) -> YamlNode | None:
        child = node.value.get(key) if isinstance(node.value, dict) else None
        if child is None:
            self.binder.wrong(node.at, self._path(key), "is required but missing")
        return child

    def _items(self, node: YamlNode, path: str) -> list[YamlNode]:
        if isinstance(node.value, list):
            return node.value
        self._wrong(node, path, f"expected a list (`- name: …`), found {kind(node)}")
        return []

    def _wrong(self, node: YamlNode, path: str, message: str) -> None:
        self.binder.wrong(node.location, self._path(path), message)

    def _path(self, path: str) -> str:
        return f"{self._name}.{path}"


def _sound(plugins: list[Any]) -> list[Any]:
    """Return the plugins, with None for each invalid one."""
    return [None if INVALID in (plugin, getattr(plugin, "value", None)) else plugin for plugin in plugins]


def _only(node: YamlNode, keys: list[str]) -> YamlNode:
    return _filtered(node, lambda key: key in keys)


def _without(node: YamlNode, keys: list[str]) -> YamlNode:
    return _filtered(node, lambda key: key not in keys)


def _filtered(node: YamlNode, wanted: Any) -> YamlNode:
    if not isinstance(node.value, dict):
        return node
    value = {key: child for key, child in node.value.items() if wanted(key)}
    return replace(node, value=value, keys={key: location for key, location in node.keys.items() if wanted(key)})


def _locations(node: YamlNode) -> dict[str, Any]:
    """Return the location of every key path, with `processor` and `route` for both spellings, and `route.name`."""
    locations = {}
    for path, location in paths(node):
        for key, (_, plural) in LISTS.items():
            if path == plural or path.startswith(f"{plural}["):
                path = key + path[len(plural) :]
        locations[path] = location
        if path.startswith("route[") and "." in path:
            locations[f"route.{path.partition('.')[2]}"] = location
    return locations
