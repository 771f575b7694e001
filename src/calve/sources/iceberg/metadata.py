"""The metadata attributes of the iceberg source's events."""

from __future__ import annotations

import pyarrow as pa

__all__ = ["METADATA", "ORIGIN"]

METADATA = {
    "iceberg_operation": pa.string(),
    "iceberg_table_name": pa.string(),
    "iceberg_snapshot_id": pa.int64(),
    "iceberg_sequence_number": pa.int64(),
    "iceberg_commit_timestamp": pa.string(),
    "document_id": pa.string(),
    "bulk_action": pa.string(),
}
"""The metadata attributes of a change, and their types."""
ORIGIN = "iceberg_table_name"
"""The attributes that identify the parts of the source, each read in order; never null."""
