"""What an unknown name was meant to be."""

from __future__ import annotations

from pathlib import Path

import pytest

from calve.pipeline.plugins import PLUGINS
from calve.settings import parse
from calve.settings.problems import SettingsErrors, unknown


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("table", "table_identifier"),
        ("Key", "identifier_columns"),
        ("table_identifer", "table_identifier"),
        ("zzz", ""),
    ],
)
def test_a_hint_names_the_option_that_was_meant(name: str, meant: str) -> None:
    message = unknown("key", name, ["identifier_columns", "table_identifier", "tables"])
    assert message.startswith(f"unknown key '{name}'" + (f"; did you mean {meant}?" if meant else " (known"))


@pytest.mark.parametrize(
    ("plugin", "name", "meant"),
    [
        ("iceberg", "table", "table_identifier"),
        ("iceberg", "warehouse", "catalog"),
        ("iceberg", "primary_key", "identifier_columns"),
        ("iceberg", "partition", "partition_by"),
        ("opensearch", "url", "hosts"),
        ("opensearch", "id", "document_id"),
    ],
)
def test_what_newcomers_write_in_a_sink(plugin: str, name: str, meant: str, tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(f"p: {{source: {{http: {{}}}}, sink: [{{{plugin}: {{{name}: x}}}}]}}")
    with pytest.raises(SettingsErrors, match=f"did you mean {meant}"):
        parse(path, PLUGINS)
