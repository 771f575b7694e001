"""A data file or a delete file, as Iceberg's REST specification describes it (`ContentFile`)."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

__all__ = ["Bounds", "ContentFile", "Counts"]


class Counts(msgspec.Struct, frozen=True, gc=False):
    """Numbers by field id: the two lists belong together."""

    keys: list[int] = []
    values: list[int] = []


class Bounds(msgspec.Struct, frozen=True, gc=False):
    """Iceberg's single values, as upper-case hex, by field id."""

    keys: list[int] = []
    values: list[str] = []


class ContentFile(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", omit_defaults=True, gc=False):
    """A file that a task wrote. Receipts and the ledger have its JSON, which Iceberg's Java reads as it is.

    Attributes:
        partition: The values in the order of the spec; `["NaN"]`, `["Infinity"]` or `["-Infinity"]` stands for what
            JSON has no number for.
        equality_ids: The field ids of the key, of equality deletes.
    """

    spec_id: int
    content: Literal["DATA", "POSITION_DELETES", "EQUALITY_DELETES"]
    file_path: str
    file_format: str
    partition: list[Any]
    file_size_in_bytes: int
    record_count: int
    column_sizes: Counts | None = None
    value_counts: Counts | None = None
    null_value_counts: Counts | None = None
    nan_value_counts: Counts | None = None
    lower_bounds: Bounds | None = None
    upper_bounds: Bounds | None = None
    split_offsets: list[int] | None = None
    sort_order_id: int | None = None
    equality_ids: list[int] = []

    @property
    def is_data(self) -> bool:
        """Whether it has rows, not deletes."""
        return self.content == "DATA"
