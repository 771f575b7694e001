"""How Spark has the columns of a table, of which it lacks some types, and which tables it can read itself.

All others are read by Iceberg's generic reader (`Rows.java`), which knows every type.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from calve.table.defaults import without_defaults

__all__ = ["SparkColumns", "spark_columns", "with_binary_places"]

_PLACES = {"geometry": "binary", "geography": "binary"}
"""As WKB."""
_LACKING = {"time": "string", "timestamp_ns": "string", "timestamptz_ns": "string", **_PLACES}
"""What becomes of types that Spark lacks, by the first word of a type; text is ISO 8601."""
_PARTS = ("fields", "type", "element", "key", "value")
"""The keys of a schema under which types are; a field may have any name."""


class SparkColumns(NamedTuple):
    """The columns of a table with types that Spark has.

    Attributes:
        schema_json: The schema with these types (Iceberg specification, appendix C), without defaults.
        is_readable: Whether Spark can read the table's files.
    """

    schema_json: str
    is_readable: bool


def spark_columns(schema_json: str) -> SparkColumns:
    """Return the columns of a table as Spark has them."""
    schema = json.loads(schema_json)
    converted = json.dumps(without_defaults(_converted(schema, _LACKING)))
    return SparkColumns(converted, not any(_fails(*leaf) for leaf in _leaves(schema)))


def with_binary_places(schema_json: str) -> str:
    """Return a schema with binary columns, for WKB, in place of geometry and geography."""
    return json.dumps(_converted(json.loads(schema_json), _PLACES), separators=(",", ":"))


def _converted(kind: Any, types: Mapping[str, str]) -> Any:
    if isinstance(kind, list):
        return [_converted(part, types) for part in kind]
    if isinstance(kind, dict):
        return {key: _converted(part, types) if key in _PARTS else part for key, part in kind.items()}
    return types.get(_word(kind), kind) if isinstance(kind, str) else kind


def _leaves(kind: Any, depth: int = 0, is_element: bool = False) -> Iterator[tuple[str, int, bool]]:
    """Yield the first word of each type, how deep it is nested, and whether a list or a map is around it."""
    if isinstance(kind, str):
        yield _word(kind), depth, is_element
    elif kind["type"] == "struct":
        for field in kind["fields"]:
            yield from _leaves(field["type"], depth + 1, is_element)
    else:
        for part in ("element", "key", "value"):
            if part in kind:
                yield from _leaves(kind[part], depth + 1, True)


def _fails(word: str, depth: int, is_element: bool) -> bool:
    """Return whether Spark's readers (Iceberg 1.12) fail on a type.

    On a column that is always null they do if a file has it, as those of PyIceberg.
    """
    return word in _LACKING or (word == "variant" and is_element) or (word == "unknown" and depth == 1)


def _word(kind: str) -> str:
    return kind.partition("(")[0]
