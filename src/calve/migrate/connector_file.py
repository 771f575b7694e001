"""Reads the configuration of a Kafka Connect connector: JSON in two forms, or a properties file."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

from calve.errors import SettingsError

__all__ = ["Connector", "read_connector"]

_FORMS = 'Expected {"name": …, "config": {…}}, the configuration alone as one JSON object, or a .properties file'
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class Connector(NamedTuple):
    """A connector: its name (empty: unknown), and its properties as Kafka Connect sees them, all of them text."""

    name: str
    properties: dict[str, str]


def read_connector(path: Path) -> Connector:
    """Read a file; JSON begins with `{`, all else is a properties file, unless it is YAML.

    Raises:
        SettingsError: The file cannot be read, or is neither.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else f"it is not UTF-8 (byte {error.start})"
        raise _wrong(path, f"{path} cannot be read: {why}", _FORMS) from error
    if path.suffix in (".yaml", ".yml"):
        hint = f"Calve reads Data Prepper's pipelines directly: calve validate {path}"
        raise _wrong(path, f"{path} is YAML, not the configuration of a connector", hint)
    if text.lstrip().startswith(("{", "[")):
        return _from_json(path, text)
    properties = _from_lines(path, text)
    return Connector(properties.get("name", ""), properties)


def _from_json(path: Path, text: str) -> Connector:
    try:
        document = json.loads(text)
    except ValueError as error:
        raise _wrong(path, f"{path} is no valid JSON: {error}", _FORMS) from error
    if isinstance(document, list) and len(document) == 1:
        document = document[0]
    if not isinstance(document, dict):
        raise _wrong(path, f"{path} is not the configuration of one connector", _FORMS)
    config = document.get("config", document)
    if not isinstance(config, dict):
        raise _wrong(path, f"{path}: `config` is not a JSON object", _FORMS)
    properties = {name: _text(path, name, value) for name, value in config.items() if value is not None}
    name = document.get("name") or properties.get("name") or ""
    return Connector(str(name), properties)


def _text(path: Path, name: str, value: Any) -> str:
    if isinstance(value, dict | list):
        hint = "Values of a connector's configuration are texts; a list is one text with commas"
        raise _wrong(path, f"{path}: the value of {name} is not a text", hint)
    return value if isinstance(value, str) else json.dumps(value)


def _from_lines(path: Path, text: str) -> dict[str, str]:
    """Read Java's properties: `key=value` or `key: value`, comments, lines continued by a backslash at their end."""
    properties = {}
    joined = re.sub(r"(?<!\\)((?:\\\\)*)\\\r?\n[ \t\f]*", r"\1", text)
    for number, line in enumerate(joined.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith(("#", "!")):
            continue
        parts = re.match(r"\s*((?:\\.|[^\\=:\s])+)\s*[=:\s]\s*(.*)", line)
        if parts is None:
            raise _wrong(path, f"{path}:{number}: expected key=value", _FORMS)
        properties[_unescaped(parts[1])] = _unescaped(parts[2]).strip()
    return properties


def _unescaped(text: str) -> str:
    text = re.sub(r"\\u([0-9A-Fa-f]{4})", lambda match: chr(int(match[1], 16)), text)
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), text)


def _wrong(path: Path, message: str, hint: str) -> SettingsError:
    return SettingsError(message, step="settings", target=str(path), hint=hint)
