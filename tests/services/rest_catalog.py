"""An Iceberg REST catalog of one table, and one without its config, that answers as a test says, also what no honest catalog would."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from typing import Any

from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.types import LongType, NestedField

from services.scripted import Scripted

__all__ = ["OTHER_TABLE", "TABLE", "RestCatalog"]

TABLE = "db.events"
OTHER_TABLE = "db.other"
_SCHEMA = Schema(NestedField(1, "id", LongType(), required=False))

_UUID = uuid.UUID(int=46)


@dataclass
class RestCatalog:
    """What the server says.

    Attributes:
        location: Of the table.
        defaults: Of `/v1/config`.
        overrides: Of `/v1/config`.
        config: Of the table.
        credentials: Of the table, by prefix.
        properties: Of the table.
        version: Of its metadata, in the name of the file.
        old_metadata: The files that its log of metadata lists.
    """

    location: str
    defaults: dict[str, Any] = field(default_factory=dict)
    overrides: dict[str, Any] = field(default_factory=dict)
    config: dict[str, str] = field(default_factory=dict)
    credentials: dict[str, dict[str, str]] = field(default_factory=dict)
    properties: dict[str, str] = field(default_factory=dict)
    version: int = 0
    old_metadata: tuple[str, ...] = ()

    def serve(self) -> Scripted:
        """Return the server; it serves while it is entered."""
        return Scripted(self._answer)

    def _answer(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        match path.partition("?")[0].strip("/").split("/"):
            case ["v1", "config"]:
                answer: dict[str, Any] = {"defaults": self.defaults, "overrides": self.overrides}
            case ["v1", "namespaces"]:
                answer = {"namespaces": [["db"]]}
            case ["v1", "namespaces", "db"]:
                answer = {"namespace": ["db"], "properties": {}}
            case ["v1", "namespaces", "db", "tables", "events"]:
                answer = self._table()
            case ["v1", "namespaces", "db", "tables", "other"]:
                answer = {**self._table(), "config": {}, "storage-credentials": []}
            case _:
                error = {"message": f"no {path}", "type": "NoSuchTableException", "code": 404}
                return 404, json.dumps({"error": error}).encode()
        return 200, json.dumps(answer).encode()

    def _table(self) -> dict[str, Any]:
        metadata = new_table_metadata(
            _SCHEMA, UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER, self.location, self.properties, _UUID
        )
        return {
            "metadata-location": f"{self.location}/metadata/{self.version:05d}.metadata.json",
            "metadata": {
                **json.loads(metadata.model_dump_json()),
                "metadata-log": [
                    {"timestamp-ms": at, "metadata-file": file} for at, file in enumerate(self.old_metadata)
                ],
            },
            "config": self.config,
            "storage-credentials": [{"prefix": key, "config": value} for key, value in self.credentials.items()],
        }
