"""A catalog for dry runs: it reads real tables, and keeps created and changed tables in memory."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyiceberg import partitioning, transforms
from pyiceberg.schema import Schema, assign_fresh_schema_ids, index_by_id

from calve.columns.evolve import Evolution, NewColumn
from calve.columns.evolved import evolved
from calve.errors import CommitError, NoTargetError, SchemaConflictError
from calve.table.definition import PartitionField
from calve.table.loaded import Table
from calve.table.schema import read_schema

__all__ = ["Created", "DryRunCatalog"]


_STEP = "create the table"
_DEFAULT_FORMAT_VERSION = 2
_SUFFIX = {"identity": "", "void": "_null", "truncate": "_trunc"}
_TIMES = ("year", "month", "day", "hour")


@dataclass(frozen=True)
class Created:
    """How a table would be created, before columns are added."""

    schema: Schema
    partition_fields: Sequence[PartitionField]
    properties: Mapping[str, str]
    location: str | None
    sort_fields: Sequence[tuple[str, str]] = ()


class DryRunCatalog:
    """Replaces a `catalog.catalog.Catalog` if nothing may be written (driver, any number of threads).

    Args:
        name: The catalog's name.
        properties: Its properties.
        load: Loads a table of the real catalog, or None.

    Attributes:
        created: The tables that would be created, by identifier.
        added: The columns that would be added to existing or new tables, by identifier.
        widened: The columns that would be widened, and their new types, by identifier.
    """

    def __init__(self, name: str, properties: Mapping[str, str], load: Callable[[str], Table | None]) -> None:
        self.name = name
        self.properties = properties
        self.created: dict[str, Created] = {}
        self.added: dict[str, list[NewColumn]] = {}
        self.widened: dict[str, list[tuple[str, str]]] = {}
        self._load = load
        self._lock = threading.RLock()
        self._tables: dict[str, Table] = {}

    def open(self) -> None:
        """Do nothing: `load` connects to the catalog."""

    def load(self, identifier: str) -> Table | None:
        """Return a table as it would be after all changes so far."""
        return self._tables.get(identifier) or self._load(identifier)

    def create(
        self,
        identifier: str,
        schema_json: str,
        partition_fields: Sequence[PartitionField] = (),
        properties: Mapping[str, str] | None = None,
        location: str | None = None,
        sort_fields: Sequence[tuple[str, str]] = (),
    ) -> Table:
        """Return the table that the catalog would create, without a location, or the existing table.

        Raises:
            SchemaConflictError: The format version lacks a column type.
            CommitError: The partition fields conflict.
        """
        properties = dict(properties or {})
        schema = _with_defaults(assign_fresh_schema_ids(read_schema(schema_json)), schema_json)
        version = int(properties.get("format-version", _DEFAULT_FORMAT_VERSION))
        _check_types(identifier, schema, version)
        table = Table(
            identifier=identifier,
            uuid="",
            location=location or "",
            schema_json=schema.model_dump_json(),
            spec_json=_spec(identifier, schema, partition_fields).model_dump_json(),
            format_version=version,
            properties=properties,
        )
        with self._lock:
            if identifier not in self._tables:
                self.created[identifier] = Created(schema, partition_fields, properties, location, sort_fields)
                self._tables[identifier] = table
            return self._tables[identifier]

    def try_storing(
        self, namespace: str, properties: Mapping[str, str] | None = None, location: str | None = None
    ) -> dict[str, str]:
        """Do nothing: a dry run stores no table."""
        return {}

    def evolve(self, identifier: str, evolution: Evolution) -> Table:
        """Add the planned columns to the table in memory.

        Raises:
            NoTargetError: There is no such table.
        """
        with self._lock:
            table = self.load(identifier)
            if table is None:
                raise _missing(identifier, "evolve")
            changed, added = evolved(table, evolution)
            self.added.setdefault(identifier, []).extend(added)
            self.widened.setdefault(identifier, []).extend(evolution.widen)
            self._tables[identifier] = changed
            return changed

    def add_unpartitioned_spec(self, identifier: str) -> Table:
        """Add an unpartitioned spec to the table in memory.

        Raises:
            NoTargetError: There is no such table.
        """
        with self._lock:
            table = self.load(identifier)
            if table is None:
                raise _missing(identifier, "prepare the table for deletes")
            self._tables[identifier] = replace(
                table, unpartitioned_spec_id=table.spec.spec_id + 1, has_other_specs=True
            )
            return self._tables[identifier]


def _missing(identifier: str, step: str) -> NoTargetError:
    return NoTargetError(f"The table {identifier} does not exist", step=step, target=identifier)


def _with_defaults(schema: Schema, given: str) -> Schema:
    """Return a schema with new ids with the defaults of the one that it was made of: PyIceberg drops them."""

    def kept(kind: Any, old: Any) -> Any:
        if isinstance(kind, list):
            return [kept(part, other) for part, other in zip(kind, old, strict=True)]
        if not isinstance(kind, dict):
            return kind
        defaults = {key: old[key] for key in ("initial-default", "write-default") if key in old}
        return {
            key: kept(part, old[key]) if key in ("fields", "type", "element", "value") else part
            for key, part in kind.items()
        } | defaults

    return read_schema(json.dumps(kept(json.loads(schema.model_dump_json()), json.loads(given))))


def _check_types(identifier: str, schema: Schema, version: int) -> None:
    try:
        if version < 3 and any(field.initial_default is not None for field in index_by_id(schema).values()):
            raise ValueError("defaults need format version 3")
        schema.check_format_version_compatibility(version)
    except ValueError as error:
        raise SchemaConflictError(
            f"The table {identifier} cannot have such columns: {error}",
            step=_STEP,
            target=identifier,
            hint="Set `format-version: 3` in `table_properties`",
        ) from error


def _spec(identifier: str, schema: Schema, fields: Sequence[PartitionField]) -> partitioning.PartitionSpec:
    """Build a spec with the names and checks of Iceberg's `PartitionSpec.Builder`."""
    built: list[partitioning.PartitionField] = []
    seen: set[tuple[int, str]] = set()
    for number, (column, text) in enumerate(fields):
        kind = text.partition("[")[0]
        source = schema.find_field(column).field_id
        name = f"{column}{_SUFFIX.get(kind, f'_{kind}')}"
        transform = transforms.parse_transform(text)
        same = (source, "time" if kind in _TIMES else text)
        try:
            partitioning.validate_partition_name(name, transform, source, schema, set())
            if same in seen or any(field.name == name for field in built):
                raise ValueError(f"{text} of {column} repeats another partition field")
        except ValueError as error:
            raise CommitError(f"{identifier}: {error}", step=_STEP, target=identifier) from error
        seen.add(same)
        field_id = partitioning.PARTITION_FIELD_ID_START + number
        built.append(partitioning.PartitionField(source_id=source, field_id=field_id, transform=transform, name=name))
    return partitioning.PartitionSpec(*built)
