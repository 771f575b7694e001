"""What the server of a catalog, and the writers of its tables, may decide here: addresses and credentials of storage.

Never a class, a module or a path of this machine: who writes the YAML decides about these. Java filters what a REST
server sends (`RestGuard.java`), before Iceberg merges it over the properties of the user; the rest is checked here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from calve.catalog.storage import for_executors
from calve.engine.java.compiled import java_class
from calve.errors import UnsupportedError
from calve.observe.log import Log
from calve.state.durable import local_path

__all__ = ["ALLOWED", "Trust", "is_allowed", "refuse_java_class"]

_S3_KEYS = (
    "s3.access-key-id",
    "s3.secret-access-key",
    "s3.session-token",
    "s3.session-token-expires-at-ms",
    "client.refresh-credentials-enabled",
    "client.refresh-credentials-endpoint",
)
_GCS_TOKEN = (
    "gcs.oauth2.token",
    "gcs.oauth2.token-expires-at",
    "gcs.oauth2.refresh-credentials-enabled",
    "gcs.oauth2.refresh-credentials-endpoint",
)
_ADLS_KEYS = (
    "adls.auth.shared-key.account.name",
    "adls.auth.shared-key.account.key",
    "adls.account-name",
    "adls.account-key",
    "adls.sas-token",
    "adls.token",
    "adls.refresh-credentials-enabled",
    "adls.refresh-credentials-endpoint",
)
_BELONG_TOGETHER = (_S3_KEYS, _GCS_TOKEN, _ADLS_KEYS)
"""Parts of one credential: with one of the user's own, those of a server would not fit."""
ALLOWED = (
    *("prefix", "namespace-separator", "token", "urn:ietf:params:oauth:token-type:"),
    *("client.region", *_S3_KEYS, *_GCS_TOKEN, *_ADLS_KEYS),
    *(
        "s3.endpoint",
        "s3.region",
        "s3.path-style-access",
        "s3.cross-region-access-enabled",
        "s3.use-arn-region-enabled",
    ),
    *("s3.remote-signing-enabled", "s3.signer.uri", "s3.signer.endpoint"),
    *("s3.sse.type", "s3.sse.key", "s3.sse.md5"),
    *("gcs.project-id", "gcs.user-project", "gcs.service.host"),
    *("adls.sas-token.", "adls.sas-token-expires-at-ms.", "adls.connection-string."),
)
"""What a server may set: names, and beginnings of names, which end with a dot or a colon."""
_PLACES = ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")
_JAVA_CLASS = "write.location-provider.impl"
_STORES = frozenset(("s3", "s3a", "s3n", "gs", "abfs", "abfss", "wasb", "wasbs", "adl", "hdfs", "oss", "cosn", "obs"))
_REST = "org.apache.iceberg.rest.RESTCatalog"
_HADOOP = ("hadoop", "org.apache.iceberg.hadoop.HadoopCatalog")


def is_allowed(name: str) -> bool:
    """Return whether the server of a catalog may set a property."""
    return any(name == other or (other[-1] in ".:" and name.startswith(other)) for other in ALLOWED)


def refuse_java_class(table: str, properties: Mapping[str, str]) -> None:
    """Check that no class of the table's choice would run where Java writes its files.

    Raises:
        UnsupportedError: A property names one.
    """
    if provider := properties.get(_JAVA_CLASS):
        hint = f"Remove the property `{_JAVA_CLASS}` of the table: Calve loads no class that a table names"
        message = f"Table {table} requires the location provider {provider}"
        raise UnsupportedError(message, step="write", target=table, hint=hint)


class Trust:
    """The limits of one catalog.

    Args:
        name: The catalog's name, for the log.
        properties: Its properties, as the user has set them.
    """

    def __init__(self, name: str, properties: Mapping[str, str]) -> None:
        self._name = name
        self._properties = properties
        warehouse = properties.get("warehouse", "")
        is_path = warehouse.startswith(("/", "file:"))  # else it may be the name of a warehouse
        self._folder = local_path(warehouse) if is_path else None
        self._stores = _STORES | {urlsplit(warehouse).scheme}
        kind = properties.get("type", "").lower() or properties.get("catalog-impl", "")
        self._is_rest = kind in ("rest", _REST)
        self._is_local = properties.get("uri", "").startswith("jdbc:sqlite:") or (
            kind in _HADOOP and local_path(warehouse) is not None
        )
        self._guard: Any = None

    def open(self, jvm: Any, conf: Any) -> Any:
        """Open the catalog in the JVM; raises what py4j raises."""
        properties = dict(self._properties)
        if not self._is_rest:
            return jvm.org.apache.iceberg.CatalogUtil.buildIcebergCatalog(self._name, properties, conf)
        self._guard = java_class(jvm, __name__, "RestGuard").newInstance()
        names = dict.fromkeys(self._own(), "")
        return self._guard.open(self._name, properties, conf, json.dumps(names), json.dumps(ALLOWED))

    def report(self, log: Log) -> None:
        """Log which properties of the server were ignored since the last call."""
        if self._guard is not None and (names := self._guard.ignored()):
            log.warning(
                f"The server of the catalog {self._name} sets {names}, which a server may not; they are ignored. "
                "Set them in `catalog:` if you need them"
            )

    def storage(self, properties: Mapping[str, str]) -> dict[str, str]:
        """Return the properties with which executors use a table's files.

        Args:
            properties: Those of the FileIO that Java uses.
        """
        return for_executors(self.merged(properties))

    def merged(self, properties: Mapping[str, str]) -> dict[str, str]:
        """Return the user's properties, and of others those that a server may set."""
        own = self._own()
        kept = {key: value for key, value in properties.items() if key not in own and is_allowed(key)}
        return {**kept, **self._properties}

    def check(self, table: str, location: str, properties: Mapping[str, str]) -> None:
        """Check that no file of a table would be where only the user of this machine may choose a place.

        Args:
            table: Its identifier.
            location: Its location.
            properties: Its properties.

        Raises:
            UnsupportedError: A location is on this machine, outside of the catalog's warehouse, or in an unknown store.
        """
        if self._is_local:
            return
        for name, place in [("location", location), *((key, properties.get(key)) for key in _PLACES)]:
            if place and not self._allows(place):
                hint = "If its tables are to be there, set `warehouse` in `catalog:` to a folder or store above it"
                message = f"Table {table}: its {name} {place} is outside of the stores of the catalog {self._name}"
                raise UnsupportedError(message, step="catalog", target=table, hint=hint)

    def check_old_metadata(self, table: str, files: Iterable[str]) -> None:
        """Check the files that a commit may delete because the table's log of metadata lists them.

        Raises:
            UnsupportedError: One is on this machine, outside of the catalog's warehouse, or in an unknown store.
        """
        if self._is_local:
            return
        for file in files:
            if "/../" in file or not self._allows(file):
                hint = "Find out who wrote it; then remove the property `write.metadata.delete-after-commit.enabled`"
                message = f"Table {table}: commits would delete {file}, which its log of metadata lists"
                raise UnsupportedError(message, step="catalog", target=table, hint=hint)

    def _allows(self, place: str) -> bool:
        path = local_path(place)
        if path is None:
            return urlsplit(place).scheme in self._stores
        return self._folder is not None and _real(path).is_relative_to(_real(self._folder))

    def _own(self) -> set[str]:
        """The properties that only the user sets: with a part of a credential all of it."""
        own = set(self._properties)
        return own.union(*(group for group in _BELONG_TOGETHER if own.intersection(group)))


def _real(path: Path) -> Path:
    return path.absolute().resolve()
