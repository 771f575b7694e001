"""Reads one scalar as the type of an option, and checks an option's limits."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

from calve.settings import units
from calve.settings.node import Scalar, YamlNode, resolve
from calve.settings.option import Option
from calve.settings.shape import Leaf, Shape, words

__all__ = ["choice_text", "outside", "read_leaf", "scalar_text"]

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def scalar_text(node: YamlNode) -> str:
    """Return a scalar as text, with environment variables replaced."""
    return node.value if isinstance(node.value, str) else node.text


def choice_text(node: YamlNode) -> str:
    """Return the choice of a scalar; an empty value is `null`."""
    return "null" if node.value is None else scalar_text(node)


def read_leaf(shape: Leaf, node: YamlNode, option: Option) -> Any:
    """Read a scalar that is not null.

    Raises:
        ValueError: It has another type; the text says what was expected.
    """
    text = scalar_text(node)
    value: Any = resolve(text) if node.from_environment else node.value
    match shape.name:
        case "text" if option.secret and not node.from_environment and (named := _VARIABLE.fullmatch(text)):
            raise ValueError(f"is the text {text}; to read an environment variable write ${{env:{named[1]}}}")
        case "text":
            return text
        case "path":
            return Path(text)
        case "boolean" if isinstance(value, bool):
            return value
        case "integer" if isinstance(value, int) and not isinstance(value, bool):
            return value
        case "number" if _is_number(value):
            return float(value)
        case "duration":
            return _duration(text, value, option)
        case "size":
            return units.size(text)
        case _:
            raise ValueError(f"expected {words(shape)}")


def outside(shape: Shape, value: Any, option: Option) -> str | None:
    """Return a message about a violated limit, or None; for lists, maps and texts the length is checked."""
    measured: Any = len(value) if isinstance(value, str | list | tuple | dict) else value
    actual = "" if option.secret or measured is not value else f", not {_limit(shape, value, value)}"
    if option.minimum is not None and measured < option.minimum:
        if measured == 0 and option.minimum == 1 and measured is not value:
            return "must not be empty"
        return f"must be at least {_limit(shape, option.minimum, value)}{actual}"
    if option.maximum is not None and measured > option.maximum:
        return f"must be at most {_limit(shape, option.maximum, value)}{actual}"
    return None


def _is_number(value: Scalar) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _duration(text: str, value: Any, option: Option) -> timedelta:
    if option.unit is None or not _is_number(value):
        return units.duration(text)
    if value < 0:
        raise ValueError("a duration cannot be negative")
    try:
        return timedelta(milliseconds=value) if option.unit == "ms" else timedelta(seconds=value)
    except OverflowError:
        raise ValueError("this duration is too long") from None


def _limit(shape: Shape, limit: Any, value: Any) -> str:
    if isinstance(limit, timedelta):
        return units.duration_text(limit)
    if shape == Leaf("size"):
        return units.size_text(limit)
    plural = "" if limit == 1 else "s"
    if isinstance(value, str):
        return f"{limit} character{plural} long"
    return f"{limit} element{plural} long" if isinstance(value, list | tuple | dict) else str(limit)
