"""A YAML document as a tree that knows where everything stands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from calve.settings.problems import Location, shown

__all__ = ["Scalar", "YamlNode", "kind", "locate", "nearest", "paths", "plain", "resolve"]

Scalar: TypeAlias = "bool | int | float | str | None"

_WORDS: dict[str, bool | None] = {"": None, "~": None}
for _word, _value in (("null", None), ("true", True), ("false", False)):
    _WORDS |= dict.fromkeys((_word, _word.capitalize(), _word.upper()), _value)
_INT = re.compile(r"[-+]?(0|[1-9][0-9]{0,18})")
_FLOAT = re.compile(r"[-+]?([0-9]{1,40}\.[0-9]{0,40}|\.?[0-9]{1,40}(?=[.eE])|\.[0-9]{1,40})([eE][-+]?[0-9]{1,3})?")


@dataclass(frozen=True)
class YamlNode:
    """One value of the document.

    Attributes:
        where: Where the value begins.
        value: A scalar, a list of nodes, or a map of nodes by key in the order of the file.
        at: Where it is announced: its key, or `where` for an element of a list.
        text: A scalar as it was written, before `${env:…}` was replaced.
        keys: Where each key of a map stands.
        from_environment: `value` is text from the environment or a file, so it may stand for a number or a boolean.
        broken: A problem with it has been reported already.
        size: How many nodes there are below, itself counted; aliases count each time.
        height: How many levels there are below.
        path_characters: Length of the key paths of all nodes below, from here on.
    """

    where: Location
    value: Scalar | list[YamlNode] | dict[str, YamlNode]
    at: Location
    text: str = ""
    keys: dict[str, Location] = field(default_factory=dict)
    from_environment: bool = False
    broken: bool = False
    size: int = 1
    height: int = 0
    path_characters: int = 0

    @property
    def location(self) -> Location:
        """Where to point at: the value if it is written out on its line, else its key."""
        return self.at if self.value is None or isinstance(self.value, dict) else self.where


def resolve(text: str) -> Scalar:
    """Return the value of a plain (unquoted) scalar, by YAML 1.2's core schema, decimal only; so `yes` is a text."""
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


def kind(node: YamlNode) -> str:
    """Return a description of a node for errors: `a list`, `nothing`, `true`, the text in quotes."""
    if node.value is None:
        return "nothing"
    if isinstance(node.value, dict):
        return "a map"
    if isinstance(node.value, list):
        return "a list"
    return shown(node.text) if isinstance(node.value, str) else node.text


def plain(node: YamlNode) -> object:
    """Return the value in built-in Python types."""
    if isinstance(node.value, dict):
        return {key: plain(child) for key, child in node.value.items()}
    if isinstance(node.value, list):
        return [plain(child) for child in node.value]
    return node.value


def paths(node: YamlNode, path: str = "") -> Iterator[tuple[str, Location]]:
    """Yield the location of everything at and below a node, by key path (`sink[0].iceberg.catalog`)."""
    yield path, node.location
    if isinstance(node.value, dict):
        for key, child in node.value.items():
            yield from paths(child, f"{path}.{key}" if path else key)
    if isinstance(node.value, list):
        for index, child in enumerate(node.value):
            yield from paths(child, f"{path}[{index}]")


def locate(node: YamlNode, path: str) -> Location:
    """Find the location of a key path below a node; of the nearest one above it, if it is not in the document."""
    locations = dict(paths(node))
    return nearest(locations, path) or node.location


def nearest(locations: dict[str, Location], path: str) -> Location | None:
    """Look a key path up, else the longest path above it that is known."""
    while path and path not in locations:
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return locations.get(path)
