"""An Iceberg catalog, through its Java implementation: load, create and evolve tables.

Every catalog that Iceberg supports works, because the properties go to `CatalogUtil.buildIcebergCatalog` as they are.
Nothing here caches tables: each call sees the changes of other writers.
"""

from __future__ import annotations

import contextlib
import json
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

from calve.catalog import namespaces
from calve.catalog.attempt import Attempt, table_of
from calve.catalog.change_columns import change_columns
from calve.catalog.diagnose import disk_explained, not_opened
from calve.catalog.namespaces import unless
from calve.catalog.probe import SCHEMA, TableStorage, has_staged_files, try_storing
from calve.catalog.retry import retried
from calve.catalog.session_catalogs import in_session
from calve.catalog.sqlite import embedded
from calve.catalog.steady import Steady
from calve.catalog.trust import Trust
from calve.columns.evolve import Evolution
from calve.engine.engine import Engine
from calve.engine.java.compiled import java_class
from calve.engine.java.errors import called, java_errors, unforeseen_errors
from calve.engine.java.local_files import spare_processes
from calve.errors import CalveError, CommitError, NoTargetError, SchemaConflictError, SetupError, SinkRefusedError
from calve.observe.log import Log
from calve.state.durable import make_folder
from calve.stop_point import stop_at
from calve.table.loaded import Table

__all__ = ["Catalog", "embedded"]

_STEP = "catalog"
_MISSING = (
    "org.apache.iceberg.exceptions.NoSuchTableException",
    "org.apache.iceberg.exceptions.NoSuchNamespaceException",
)
_DEFAULT_FORMAT_VERSION = 2
_PATIENCE = {"rest.client.connection-timeout-ms": "10000", "rest.client.socket-timeout-ms": "60000"}
"""Without timeouts Iceberg's client waits forever for a silent server."""


class _Names(NamedTuple):
    """Java methods, looked up once: py4j asks the JVM at each use of a package, class or method."""

    identifier: Any
    map: Any


class Catalog:
    """One catalog, for any number of threads of the driver.

    Args:
        spark: The session whose JVM holds the catalog.
        properties: Iceberg's catalog properties and `name`; empty: the embedded catalog in `./lakehouse`.
    """

    def __init__(self, spark: Engine, properties: Mapping[str, str]) -> None:
        self.spark = spark
        settings = in_session(spark, properties) or embedded(Path("lakehouse"))
        self.name = settings.pop("name", "iceberg")
        self.properties = _PATIENCE | settings if settings.get("type", "").lower() == "rest" else settings
        if settings.get("uri", "").startswith("jdbc:sqlite:"):
            make_folder(Path(settings["uri"].removeprefix("jdbc:sqlite:")).absolute().parent, is_private=False)
        with java_errors("open the catalog", self.name):
            self._jvm: Any = spark.jvm
            self._iceberg: Any = self._jvm.org.apache.iceberg
            self._conf: Any = spark.hadoop
        self.trust = Trust(self.name, self.properties)
        self._lock = threading.RLock()
        self._opened: Any = None

    def open(self) -> None:
        """Connect to the catalog now instead of at its first use.

        Raises:
            CalveError: The catalog does not open.
        """
        with self._lock:
            if self._opened is None:
                self._opened = retried(self._build)

    @property
    def warehouse(self) -> str:
        """Where tables are stored by the settings; empty: the catalog's server decides."""
        return self.properties.get("warehouse", "")

    @property
    def _java(self) -> Any:
        self.open()
        return self._opened

    def _build(self) -> Any:
        try:
            with java_errors("open the catalog", self.name):
                return self.trust.open(self._jvm, self._conf)
        except CalveError as error:
            raise not_opened(error, self._jvm, self.name, self.properties) from error

    @cached_property
    def _names(self) -> _Names:
        iceberg = self._iceberg
        return _Names(
            identifier=iceberg.catalog.TableIdentifier.parse,
            map=iceberg.util.JsonUtil.mapper().writeValueAsString,
        )

    def prepare(self) -> None:
        """Compile the Java code of commits before the first commit needs it."""
        with contextlib.suppress(CalveError), java_errors(_STEP, self.name):
            _ = self._attempts, self.steady

    @cached_property
    def _attempts(self) -> Any:
        """The Java object that begins attempts and describes tables in one call."""
        with self._lock:
            spare_processes(self._jvm, self._conf)
            return java_class(self._jvm, __name__, "Attempt").newInstance()

    @cached_property
    def _new(self) -> Any:
        """The Java object that creates tables and namespaces in one call."""
        with self._lock, java_errors(_STEP, self.name):
            return java_class(self._jvm, __name__, "NewTable").newInstance()

    @cached_property
    def steady(self) -> Steady:
        """What makes commits possible whatever the clock says."""
        with self._lock:
            return Steady(self._jvm)

    def load(self, identifier: str) -> Table | None:
        """Return the current state of a table, or None if it does not exist."""
        with java_errors(_STEP, identifier):
            described = unless(_MISSING, lambda: called(self._attempts, "load", self._java, _named(identifier)))
        self.trust.report(Log())
        return None if described is None else table_of(identifier, json.loads(described), self.trust)

    def load_java(self, identifier: str) -> Any:
        """Return a new handle of the Java `Table`, with its current state.

        Raises:
            NoTargetError: There is no such table.
            UnsupportedError: Its files would be at a place that a table may not choose.
        """
        with java_errors(_STEP, identifier):
            java_table = _existing(identifier, self._load(identifier))
            self.trust.check(identifier, str(java_table.location()), self._strings(java_table.properties()))
            return java_table

    def begin(self, identifier: str) -> Attempt:
        """Load a table to commit to it.

        Raises:
            NoTargetError: There is no such table.
        """
        with java_errors(_STEP, identifier):
            begin = partial(called, self._attempts, "begin", self.steady.java, self._java, _named(identifier))
            return Attempt(identifier, _existing(identifier, unless(_MISSING, begin)), self.trust)

    def tables(self) -> list[str]:
        """List the tables of all namespaces."""
        names, namespaces_left = [], [self._iceberg.catalog.Namespace.empty()]
        with java_errors("list the tables", self.name):
            while namespaces_left:
                namespace = namespaces_left.pop()
                names += [] if namespace.isEmpty() else [str(name) for name in self._java.listTables(namespace)]
                namespaces_left += list(self._java.listNamespaces(namespace))
        return sorted(names)

    def check_warehouse(self) -> None:
        """Check that the catalog has its warehouse; one that refuses to list namespaces is taken to have it.

        Raises:
            NoTargetError: The warehouse is missing.
            SinkUnavailableError: The catalog does not answer.
        """
        refusals = (SinkRefusedError, SetupError, CommitError)
        with contextlib.suppress(*refusals), java_errors("look at the catalog", self.name):
            namespaces.ask(self._jvm, self._java)

    def create(
        self,
        identifier: str,
        schema_json: str,
        partition_fields: Sequence[tuple[str, str]] = (),
        properties: Mapping[str, str] | None = None,
        location: str | None = None,
        sort_fields: Sequence[tuple[str, str]] = (),
    ) -> Table:
        """Create a table and its missing namespaces; return the existing table if there is one.

        The catalog reassigns all field ids: use the schema of the returned table.

        Args:
            identifier: Namespace and name joined by dots.
            schema_json: An Iceberg schema.
            partition_fields: Columns with transforms as the specification writes them, e.g. `("id", "bucket[16]")`.
            properties: The table's properties; `format-version` among them.
            location: Where the table is stored; None: the catalog decides.
            sort_fields: Columns of its sort order with `asc` or `desc`.

        Raises:
            SchemaConflictError: The format version lacks a column type, or a partition field does not fit the schema.
        """
        self._check_types(identifier, schema_json, properties or {})
        with disk_explained(location or self.warehouse), java_errors("create the table", identifier):
            fields, order = json.dumps(list(partition_fields)), json.dumps(list(sort_fields))
            layout, settings = f'{{"partitions":{fields},"order":{order}}}', json.dumps(dict(properties or {}))
            java_table = self._new.create(self._java, _named(identifier), schema_json, layout, settings, location)
            stop_at("catalog.after-create")
            return self._describe(identifier, java_table)

    def table_builder(
        self, identifier: str, schema: Any, properties: Mapping[str, str] | None, location: str | None
    ) -> Any:
        """Return Java's builder of a new table."""
        builder = self._java.buildTable(self._identifier(identifier), schema).withProperties(dict(properties or {}))
        return builder.withLocation(location) if location else builder

    def try_storing(
        self, namespace: str, properties: Mapping[str, str] | None = None, location: str | None = None
    ) -> TableStorage:
        """Check that a table could be created in a namespace and its files written; nothing remains of it.

        Args:
            namespace: An existing namespace.
            properties: The properties of new tables.
            location: Where they are stored; None: the catalog decides.

        Raises:
            CalveError: It could not be created or written.
        """
        with disk_explained(location or self.warehouse), java_errors("try the storage", self.name):
            name = f"calve_probe_{uuid.uuid4().hex}"
            identifier = f"{namespace}.{name}"
            builder = self.table_builder(identifier, self.schema(SCHEMA), properties, location)
            staged = builder.createTransaction().table()
            location_uri = str(staged.location())
            self.trust.check(namespace, location_uri, {})
            if has_staged_files(location_uri, name, staged.io()):
                builder.create()
                self._java.dropTable(self._identifier(identifier), False)
            try_storing(location_uri, staged.io())
            return TableStorage(location_uri, self.io_properties(staged), staged.io())

    @contextlib.contextmanager
    def namespace(self, name: str) -> Iterator[None]:
        """Create a namespace if it is missing, and drop it again at the end of the block."""
        with java_errors("try the catalog", self.name):
            created = list(self._new.createNamespaces(self._java, name))
        try:
            yield
        finally:
            with java_errors("try the catalog", self.name):
                namespaces.drop(self._java, created)

    def schema(self, schema_json: str) -> Any:
        """Return the Java `Schema` of a text."""
        with unforeseen_errors("make a schema"):
            return self._iceberg.SchemaParser.fromJson(schema_json)

    def evolve(self, identifier: str, evolution: Evolution) -> Table:
        """Add the planned columns; those that another writer added meanwhile are skipped.

        May be repeated safely.

        Raises:
            UnprocessableError: A column cannot be added.
            NoTargetError: There is no such table.
        """

        def attempt() -> Table:
            java_table = self.load_java(identifier)
            with self.steady.commits(lambda: java_table), unforeseen_errors("evolve the table", identifier):
                change_columns(self._iceberg, java_table, evolution)
                stop_at("catalog.after-evolve")
                java_table.refresh()
                return self._describe(identifier, java_table)

        return retried(attempt)

    def add_unpartitioned_spec(self, identifier: str) -> Table:
        """Add an unpartitioned spec to a table: its equality deletes apply to the whole table.

        May be repeated safely.

        Raises:
            NoTargetError: There is no such table.
        """

        def attempt() -> Table:
            java_table = self.load_java(identifier)
            with self.steady.commits(lambda: java_table), java_errors("prepare the table for deletes", identifier):
                table = self._describe(identifier, java_table)
                if table.unpartitioned_spec_id is not None:
                    return table
                update = java_table.updateSpec()
                for field in java_table.spec().fields():
                    update = update.removeField(field.name())
                update.addNonDefaultSpec().commit()
                java_table.refresh()
                return self._describe(identifier, java_table)

        return retried(attempt)

    def _load(self, identifier: str) -> Any:
        """The Java table or None; one call instead of `tableExists` and a load."""
        return unless(_MISSING, lambda: self.steady.load(self._java, _named(identifier)))

    def _identifier(self, identifier: str) -> Any:
        return self._names.identifier(_named(identifier))

    def _describe(self, identifier: str, java_table: Any) -> Table:
        return table_of(identifier, json.loads(self._attempts.describe(java_table)), self.trust)

    def io_properties(self, java_table: Any) -> dict[str, str]:
        """Return the properties with which executors read and write a table's files."""
        return self.trust.storage(self._strings(java_table.io().properties()))

    def _strings(self, java_map: Any) -> dict[str, str]:
        """Return a Java map as a dict in one call; py4j alone needs one call per key."""
        strings: dict[str, str] = json.loads(self._names.map(java_map))
        return strings

    def _check_types(self, identifier: str, schema_json: str, properties: Mapping[str, str]) -> None:
        version = int(properties.get("format-version", _DEFAULT_FORMAT_VERSION))
        with unforeseen_errors("make a schema"):
            conflict = self._new.conflict(schema_json, version)
        if conflict is not None:
            raise SchemaConflictError(
                f"The table {identifier} cannot have such columns: {' '.join(conflict.splitlines()[1:]).lstrip('- ')}",
                step="create the table",
                target=identifier,
                hint="Set `format-version: 3` in `table_properties`",
            )


def _named(identifier: str) -> str:
    """Check that an identifier has a namespace and a name, and return it.

    Raises:
        NoTargetError: It has not.
    """
    if not all(identifier.split(".")):
        hint = "Write namespace and name joined by single dots, e.g. `sales.orders`"
        raise NoTargetError(f"{identifier!r} is not a table identifier", step=_STEP, target=identifier, hint=hint)
    return identifier


def _existing(identifier: str, java: Any) -> Any:
    """Return the loaded table.

    Raises:
        NoTargetError: There is no such table.
    """
    if java is None:
        hint = "It was dropped or renamed; restore it, set another table, or give up events: `calve state forget`"
        raise NoTargetError(f"The table {identifier} does not exist", step=_STEP, target=identifier, hint=hint)
    return java
