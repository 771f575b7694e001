"""The formats by their names in `serde_format`; a new one is a line here, and one in `settings.FORMATS`."""

from __future__ import annotations

import importlib

from calve.serde.format import SerdeFormat

__all__ = ["format_of"]

_MODULES = {
    "avro": "avro",
    "avro_key": "avro.key",
    "debezium": "debezium",
    "json_schema": "json_schema",
    "protobuf": "protobuf",
}
"""Each module of this package has a `FORMAT`; it is imported when it is needed."""


def format_of(name: str) -> SerdeFormat:
    """Return a format."""
    loaded_format: SerdeFormat = importlib.import_module(f"calve.serde.{_MODULES[name]}").FORMAT
    return loaded_format
