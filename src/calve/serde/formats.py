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
"""Each module of this package has a `FORMAT`; imported when it is needed; `json_schema` has a `CHECKED_FORMAT`."""


def format_of(name: str, is_checked: bool = False) -> SerdeFormat:
    """Return a format; `is_checked`: the one that checks the constraints of schemas, too."""
    module = importlib.import_module(f"calve.serde.{_MODULES[name]}")
    loaded_format: SerdeFormat = module.CHECKED_FORMAT if is_checked else module.FORMAT
    return loaded_format
