"""Options of the Iceberg sink: the table of an event, and how its rows are changed by key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from calve.expression import compile_format
from calve.settings import option
from calve.settings.catalog import catalog_doubts
from calve.sinks.iceberg.table_options import FROM_KEY, FULL_ROW, RECORD_KEY, check_key, check_table_name
from calve.sinks.settings import SinkSettings

__all__ = ["RowSettings"]


@dataclass(frozen=True)
class RowSettings(SinkSettings):
    """The table of an event, and how its rows are changed by key."""

    table_identifier: str = option(
        doc="The table, as `namespace.table`. With `${…}` (`logs.${/kind}`) each event selects its table.",
        check=check_table_name,
    )
    catalog: dict[str, str] | None = option(
        None,
        "Iceberg's catalog properties: `type` or `catalog-impl`, `uri`, `warehouse` and so on, and `name` (default "
        "`iceberg`). Default: the embedded catalog in `./lakehouse`.",
        secret=True,
        check=catalog_doubts,
    )
    operation: str | None = option(
        None,
        "The operation of each event, e.g. `${/op}`. `index`, `insert`, `create`, `c`, `i`, `r` or an empty value "
        "insert; `update`, `u` update; `delete`, `d` delete; in any case. Default: every event is inserted.",
        check=compile_format,
    )
    identifier_columns: list[str] | Literal["from_key", "full_row"] = option(
        [],
        "The key of a row for updates and deletes; nested fields are dotted. Default: the table's identifier fields. "
        "A new table gets these columns as its identifier fields. `from_key`: those of the key of Kafka's records. "
        "`full_row`: rows have no key; a DELETE has the whole row, and removes one of the rows that are equal to it.",
        check=check_key,
    )
    key_column: str = option(
        RECORD_KEY, "With `from_key`: the column for a key that is a single value, not an object.", minimum=1
    )
    upsert: bool = option(False, "An INSERT replaces an existing row with the same key.")
    write_mode: Literal["equality-delete", "merge-on-read", "copy-on-write"] = option(
        "merge-on-read",
        "How older rows are removed: by position (position deletes, or deletion vectors on format version 3), by "
        "equality deletes, or by rewriting their files. May be changed at any time.",
    )
    key_index: Literal["auto", "never"] = option(
        "auto",
        "How a commit with `write_mode: merge-on-read` finds older rows. `auto`: by a scan of the key's columns while "
        "that is cheap, in a large table by an index of the keys on the local disk, about 25 bytes a row. `never`: "
        "always by a scan.",
    )
    keep_row_ids: bool = option(
        False,
        "An updated row keeps its `_row_id` (format version 3), so that readers of changes pair its old and new values "
        "without a key. A commit with `write_mode: merge-on-read` then writes such rows a second time.",
    )
    partial_updates: Literal["null", "keep"] = option(
        "null",
        "Columns that the event of an UPDATE lacks: `null` sets them to null, `keep` keeps the values of the older "
        "row. `keep` does not go with `write_mode: equality-delete`.",
    )
    equality_delete_limit: int | None = option(
        500_000,
        "If a table has more rows of equality deletes, the pipeline converts them, in parallel with its batches. 0 "
        "or null: never.",
        minimum=0,
    )

    @property
    def from_key(self) -> bool:
        """Whether the columns of a table's key are those of the records' key."""
        return self.identifier_columns == FROM_KEY

    @property
    def full_row(self) -> bool:
        """Whether rows of a table have no key, and are found by all their columns."""
        return self.identifier_columns == FULL_ROW

    @property
    def key_columns(self) -> list[str]:
        """The named columns of the key."""
        return [] if isinstance(self.identifier_columns, str) else self.identifier_columns

    @property
    def dynamic(self) -> bool:
        """Whether each event selects its table."""
        return "${" in self.table_identifier
