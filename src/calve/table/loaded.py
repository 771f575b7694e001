"""One Iceberg table for the executors: the plain values of a table that was loaded in the JVM."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import cached_property

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortOrder

from calve.table.schema import read_schema

__all__ = ["INFERRED", "MARK", "Absent", "Draft", "Table"]

MARK = "calve.mark."
"""The prefix of the table properties that hold the marks of pipelines."""

_COLUMNS = "calve.columns"
INFERRED = {_COLUMNS: "inferred"}
"""The property of tables that Calve created with columns inferred from values."""


@dataclass(frozen=True)
class Table:
    """A loaded table, picklable.

    Attributes:
        identifier: Namespace and name joined by dots, as in `table_identifier`.
        uuid: The table's UUID: a table that was dropped and created again is another one.
        location: The table's base location, without a slash at the end.
        schema_json: The current schema (Iceberg specification, appendix C).
        spec_json: The default partition spec.
        format_version: 1, 2 or 3.
        properties: The table's properties.
        sort_order_json: The default sort order.
        has_other_specs: Whether there are partition specs beside the default one.
        unpartitioned_spec_id: The id of an unpartitioned spec, None if the table has none.
        io_properties: The properties of a FileIO that can write there (`table.io().properties()`).
        metadata_location: The metadata file that these values come from; empty if there is no file.
        draft: The table with columns for all fields of a batch, some of which compete; only events that it could hold
            decide which columns are added. None: tasks make their own.
    """

    identifier: str
    uuid: str
    location: str
    schema_json: str
    spec_json: str
    format_version: int = 2
    properties: dict[str, str] = field(default_factory=dict)
    io_properties: dict[str, str] = field(default_factory=dict)
    sort_order_json: str = '{"order-id":0,"fields":[]}'
    has_other_specs: bool = False
    unpartitioned_spec_id: int | None = None
    metadata_location: str = ""
    draft: Table | None = None

    @cached_property
    def schema(self) -> Schema:
        """The current schema as PyIceberg's."""
        return read_schema(self.schema_json)

    @cached_property
    def columns_json(self) -> str:
        """The current schema without its id: equal texts mean equal columns."""
        return re.sub(r'"schema-id":\s*\d+,?\s*', "", self.schema_json, count=1)

    def differs_by_marks_only(self, other: Table) -> bool:
        """Return whether a table is the same for its writers: a commit changes only its marks and metadata location."""
        unmarked = {key: value for key, value in other.properties.items() if not key.startswith(MARK)}
        return replace(other, properties=unmarked, metadata_location="") == replace(
            self,
            properties={key: value for key, value in self.properties.items() if not key.startswith(MARK)},
            metadata_location="",
        )

    @property
    def is_inferred(self) -> bool:
        """Whether Calve inferred the columns from values when it created the table."""
        return self.properties.get(_COLUMNS) == INFERRED[_COLUMNS]

    @cached_property
    def spec(self) -> PartitionSpec:
        """The default partition spec as PyIceberg's."""
        return PartitionSpec.model_validate_json(self.spec_json)

    @cached_property
    def sort_order(self) -> SortOrder:
        """The default sort order as PyIceberg's; without fields for a table that has none."""
        return SortOrder.model_validate_json(self.sort_order_json)


@dataclass(frozen=True)
class Absent:
    """A table that does not exist and will not be created: the code and the reason of its rejected events."""

    code: str
    reason: str


@dataclass(frozen=True)
class Draft:
    """A table that is not created yet, with columns for all fields of a batch, some of which compete.

    Only events that it could hold decide the columns of the table that is created.
    """

    table: Table
