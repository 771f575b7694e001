"""The metadata attributes of the events of databases; a configuration is read with them alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from calve.sources.database.stream_position import Transaction

__all__ = ["METADATA", "OfTransaction"]

METADATA = {
    "table_name": pa.string(),
    "schema_name": pa.string(),
    "database_name": pa.string(),
    "operation": pa.string(),
    "change_event_type": pa.string(),
    "commit_timestamp": pa.string(),
    "document_id": pa.string(),
    "bulk_action": pa.string(),
    "primary_key": pa.string(),
    "opensearch_action": pa.string(),
    "ingestion_type": pa.string(),
}
"""The metadata attributes that all databases have; the last three are those of Data Prepper's `rds`."""
OfTransaction = tuple[pa.DataType, Callable[[Transaction], Any]]
"""An attribute that a database has besides: its type, and what returns its value."""
