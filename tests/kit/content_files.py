"""Content files of tests that write Parquet files by themselves."""

from __future__ import annotations

from typing import Any

from calve.record.content_file import ContentFile


def data_file(path: str, size_bytes: int = 1, rows: int = 1, **more: Any) -> ContentFile:
    """Describe a data file without partition and statistics."""
    about: dict[str, Any] = {"spec_id": 0, "content": "DATA", "file_format": "PARQUET", "partition": []}
    return ContentFile(**{**about, "file_path": path, "file_size_in_bytes": size_bytes, "record_count": rows, **more})
