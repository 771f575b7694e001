"""A data file as the JSON of a content file (Iceberg REST specification, `ContentFile`)."""

from __future__ import annotations

from typing import Any

from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.types import UUIDType

from calve.convert.table import Table
from calve.write.partition import Partition

__all__ = ["Described", "data_file"]


class Described:
    """What describing the files of one table needs, worked out once."""

    def __init__(self, table: Table, properties: dict[str, str]) -> None:
        self.spec_id = table.spec.spec_id
        self.plan = compute_statistics_plan(table.schema, properties)
        self.columns = parquet_path_to_id_mapping(table.schema)
        # Iceberg's Java (1.12) compares UUIDs as signed numbers: by bounds it would skip files that hold what is asked.
        self.bounded = [path for path, key in self.columns.items() if table.schema.find_type(key) != UUIDType()]


def data_file(path: str, size_bytes: int, metadata: Any, partition: Partition, described: Described) -> dict[str, Any]:
    """Describe one closed Parquet file.

    Args:
        path: Its full location.
        size_bytes: Its length.
        metadata: Its `pyarrow.parquet.FileMetaData`.
        partition: The partition that all its rows are in.
        described: The table's statistics plan.

    Returns:
        The keys of the REST specification; bounds are upper-case hex of Iceberg's single-value bytes.
    """
    found = data_file_statistics_from_parquet_metadata(metadata, described.plan, described.columns).to_serialized_dict()
    return {
        "spec-id": described.spec_id,
        "content": "DATA",
        "file-path": path,
        "file-format": "PARQUET",
        "partition": list(partition.values),
        "file-size-in-bytes": size_bytes,
        "record-count": found["record_count"],
        "column-sizes": _map(found["column_sizes"]),
        "value-counts": _map(found["value_counts"]),
        "null-value-counts": _map(found["null_value_counts"]),
        "nan-value-counts": _map(found["nan_value_counts"]),
        "lower-bounds": _map({key: value.hex().upper() for key, value in found["lower_bounds"].items()}),
        "upper-bounds": _map({key: value.hex().upper() for key, value in found["upper_bounds"].items()}),
        "split-offsets": found["split_offsets"],
    }


def _map(values: dict[int, Any]) -> dict[str, list[Any]]:
    return {"keys": list(values), "values": list(values.values())}
