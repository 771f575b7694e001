"""Shapes of option values: Python types, read once for parsing, JSON Schema and the reference."""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, TypeAlias, Union

from calve.settings.option import Size

__all__ = ["Choice", "Either", "Entries", "Items", "Leaf", "Record", "Shape", "shape_of", "words"]

Shape: TypeAlias = "Leaf | Choice | Items | Entries | Record | Either"
LeafName: TypeAlias = Literal["text", "boolean", "integer", "number", "duration", "size", "path", "anything"]


@dataclass(frozen=True)
class Leaf:
    """A scalar, or anything at all."""

    name: LeafName


@dataclass(frozen=True)
class Choice:
    """One of some texts."""

    values: tuple[str, ...]


@dataclass(frozen=True)
class Items:
    """A list, as a Python list or a tuple."""

    item: Shape
    container: type


@dataclass(frozen=True)
class Entries:
    """A map from text."""

    value: Shape


@dataclass(frozen=True)
class Record:
    """A map with the options of a settings class; null is one with nothing but defaults."""

    settings: type


@dataclass(frozen=True)
class Either:
    """One of several shapes, chosen by the YAML value; with `optional`, null is allowed too."""

    shapes: tuple[Shape, ...]
    optional: bool


_LEAVES: dict[Any, LeafName] = {
    str: "text",
    bool: "boolean",
    int: "integer",
    float: "number",
    timedelta: "duration",
    Size: "size",
    Path: "path",
    Any: "anything",
    object: "anything",
}
_WORDS: dict[LeafName, str] = {
    "text": "text",
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "duration": "a duration",
    "size": "a size",
    "path": "a path",
    "anything": "anything",
}


@functools.cache
def shape_of(annotation: Any) -> Shape:
    """Read the type of an option.

    Raises:
        TypeError: No option can have this type (a mistake in a settings class).
    """
    if annotation in _LEAVES:
        return Leaf(_LEAVES[annotation])
    if dataclasses.is_dataclass(annotation) and isinstance(annotation, type):
        return Record(annotation)
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Literal:
        return Choice(arguments)
    if origin in (list, tuple):
        return Items(shape_of(arguments[0]), origin)
    if origin is dict and arguments[0] is str:
        return Entries(shape_of(arguments[1]))
    if origin in (Union, types.UnionType):
        members = tuple(shape_of(argument) for argument in arguments if argument is not type(None))
        return Either(members, optional=type(None) in arguments)
    raise TypeError(f"an option cannot have the type {annotation}")


def words(shape: Shape) -> str:
    """Return a description of a shape for errors and the reference."""
    if isinstance(shape, Leaf):
        return _WORDS[shape.name]
    if isinstance(shape, Choice):
        return "one of " + ", ".join(shape.values)
    if isinstance(shape, Items):
        return "a list" if isinstance(shape.item, Record) else f"a list of {_bare(shape.item)}"
    if isinstance(shape, Either):
        return " or ".join(dict.fromkeys(words(member) for member in shape.shapes))
    return "a map"


def _bare(shape: Shape) -> str:
    text = words(shape).removeprefix("a ")
    return text if text in ("text", "anything") or " " in text or isinstance(shape, Choice) else f"{text}s"
