"""Locations in YAML files, and the errors at them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from calve.errors import SettingsError

__all__ = ["Location", "SettingsErrors", "SettingsProblem", "shown", "unknown"]


@dataclass(frozen=True, order=True)
class Location:
    """A location in a file; lines and columns count from 1."""

    file: str
    line: int = 1
    column: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, order=True)
class SettingsProblem:
    """One error or warning: where, at which key path (may be empty), and what."""

    location: Location
    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.location}: {self.path}: {self.message}" if self.path else f"{self.location}: {self.message}"


class SettingsErrors(SettingsError):  # noqa: N818 - several of them
    """All errors of a configuration, sorted by location, one line each.

    Attributes:
        problems: At least one.
    """

    def __init__(self, problems: Iterable[SettingsProblem]) -> None:
        self.problems = tuple(sorted(set(problems)))
        super().__init__("\n".join(map(str, self.problems)), step="settings")

    def __reduce__(self) -> tuple[Any, ...]:
        return SettingsErrors, (self.problems,)

    def to_dict(self) -> dict[str, str]:
        """Return the errors as JSON values, as one `SettingsError`."""
        return {**super().to_dict(), "error": "SettingsError"}


_MEANT = {
    ("table_identifier",): ("table", "table_name", "table_id", "name", "namespace", "database", "schema_name", "db"),
    ("catalog",): ("warehouse", "uri", "url", "path", "type", "location", "catalog_name", "io-impl", "bucket"),
    ("identifier_columns", "document_id"): ("key", "keys", "primary_key", "primary_keys", "key_columns", "id", "ids"),
    ("write_mode", "action"): ("mode", "merge_mode"),
    ("partition_by",): ("partition", "partitions", "partitioning", "partition_spec", "partition_fields"),
    ("sort_by",): ("order", "order_by", "sort", "sort_order"),
    ("table_properties",): ("format_version", "format-version", "properties", "compression"),
    ("column_types",): ("types", "fields", "columns"),
    ("schema_evolution",): ("evolve", "evolve_schema", "merge_schema"),
    ("bootstrap_servers", "hosts", "host"): ("broker", "brokers", "servers", "bootstrap.servers", "url", "uri", "host"),
    ("topics",): ("topic", "topic_name", "group", "group_id", "consumer_group"),
    ("username",): ("user", "login"),
    ("path", "scan", "database"): ("file", "files", "paths", "glob", "uri", "url", "prefix", "bucket", "db", "dbname"),
    ("codec",): ("format", "delimiter", "encoding"),
    ("index",): ("index_name", "indices"),
}
"""What newcomers write for an option: names that are not similar to it, or more similar to another one."""


def unknown(what: str, name: str, candidates: Iterable[str]) -> str:
    """Return a message about an unknown name, with a similar name and all known names."""
    names = sorted(set(candidates))
    folded = {known_name.lower(): known_name for known_name in names}
    near = [
        option for options, words in _MEANT.items() if name.lower() in words for option in options if option in names
    ]
    near = near or difflib.get_close_matches(name.lower(), folded, n=1, cutoff=0.6)
    meant = f"; did you mean {folded[near[0]]}?" if near else ""
    return f"unknown {what} {shown(name)}{meant} (known: {', '.join(names) or 'none'})"


def shown(text: str, limit: int = 60) -> str:
    """Quote a user's text for a message: on one line, shortened."""
    short = text if len(text) <= limit else text[: limit - 1] + "…"
    return "'" + "".join(c if c.isprintable() else "?" for c in short) + "'"
