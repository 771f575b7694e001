"""Checks values by the constraints of their JSON Schema (`validate: true`); runs on executors.

The library is the extra `calve[jsonschema]`.
"""

from __future__ import annotations

import json
from decimal import Decimal
from importlib.util import find_spec
from typing import Any
from urllib.parse import urljoin

from calve.serde.format import UnsupportedSchemaError, WriterSchema

__all__ = ["SchemaCheck", "is_installed"]

_UNCHECKABLE = "the constraints cannot be checked: a text is no valid Unicode, a number too long, or a list too deep"


def is_installed() -> bool:
    """Return whether the library is there."""
    return find_spec("jsonschema_rs") is not None


class SchemaCheck:
    """The constraints of one schema. Nothing is loaded from a network: references are those of the registry.

    Args:
        schema: The schema.

    Raises:
        UnsupportedSchemaError: It is no valid JSON Schema, or a document that it refers to is missing.
        ValueError: It is not JSON.
    """

    def __init__(self, schema: WriterSchema) -> None:
        import jsonschema_rs  # an extra

        document = json.loads(schema.text)
        base = str(document.get("$id", "")) if isinstance(document, dict) else ""
        others = {name: json.loads(reference.text) for name, reference in schema.references}
        resources = {uri: other for name, other in others.items() for uri in (name, urljoin(base, name))}
        try:
            registry = jsonschema_rs.Registry(list(resources.items())) if resources else None
            self._validator: Any = jsonschema_rs.validator_for(
                document, registry=registry, offline=True, mask="the value"
            )
        except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError) as error:
            raise UnsupportedSchemaError(str(error).partition("\n")[0]) from error

    def fault(self, text: bytes) -> str | None:
        """Return why a value does not follow the schema, without the value; None: it does, or is not JSON at all."""
        try:
            value = json.loads(text, parse_float=Decimal)
            error = None if self._validator.is_valid(value) else next(iter(self._validator.iter_errors(value)))
        except (json.JSONDecodeError, UnicodeDecodeError, RecursionError):
            return None  # conversion knows the reason
        except (ValueError, ArithmeticError):  # half a surrogate pair, among others
            return _UNCHECKABLE
        if error is None:
            return None
        path = "".join(f"/{step}" for step in error.instance_path)
        return f"{path}: {error.message}" if path else str(error.message)
