"""Parses the configurations that Python programs give."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from calve.pipeline.plugins import PLUGINS
from calve.settings import Parsed, parse, parse_text

__all__ = ["Config", "parsed"]

Config = str | Path | Mapping[str, Any]


def parsed(config: Config) -> Parsed:
    """Return the pipelines of a YAML file or folder, of YAML text with a line break, or of a mapping with its keys.

    Raises:
        SettingsErrors: The configuration is wrong.
    """
    if isinstance(config, Mapping):
        return parse_text(msgspec.json.encode(config).decode(), PLUGINS, "config")
    if isinstance(config, str) and "\n" in config:
        return parse_text(config, PLUGINS, "config")
    return parse(config, PLUGINS)
