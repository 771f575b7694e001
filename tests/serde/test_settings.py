"""The options of schemas: exactly one place of schemas, a login that is whole, and secrets that are never shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from calve.errors import SettingsError
from calve.serde.settings import SchemaSettings


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, [("", "set exactly one of registry_url, schema_file_location and inline_schema")]),
        (
            {"registry_url": "http://r", "inline_schema": "{}"},
            [("", "set exactly one of registry_url, schema_file_location and inline_schema")],
        ),
        (
            {"registry_url": "http://r", "schema_registry_api_key": "k"},
            [("", "set both schema_registry_api_key and schema_registry_api_secret, or none")],
        ),
        ({"registry_url": "http://r", "bearer_token": "t"}, []),
        (
            {
                "registry_url": "http://r",
                "bearer_token": "t",
                "schema_registry_api_key": "k",
                "schema_registry_api_secret": "s",
            },
            [("bearer_token", "set either bearer_token or schema_registry_api_key")],
        ),
    ],
)
def test_what_does_not_fit_together_is_refused(given: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    assert list(SchemaSettings(**given).check()) == expected


def test_the_schema_of_a_file_travels_as_text(tmp_path: Path) -> None:
    file = tmp_path / "s.avsc"
    file.write_text('"int"')
    assert SchemaSettings(schema_file_location=str(file)).with_text() == SchemaSettings(inline_schema='"int"')
    with pytest.raises(SettingsError, match="cannot be read: No such file"):
        SchemaSettings(schema_file_location=str(tmp_path / "none")).with_text()
    file.write_bytes(b"\xff")
    with pytest.raises(SettingsError, match="it is not UTF-8"):
        SchemaSettings(schema_file_location=str(file)).with_text()


def test_secrets_are_never_shown() -> None:
    shown = repr(SchemaSettings(registry_url="http://r", schema_registry_api_secret="hidden", bearer_token="hidden"))
    assert "hidden" not in shown
