"""Columns that Spark cannot read or write: where rows are found by Spark, a table must not have them."""

from __future__ import annotations

from calve.errors import UnsupportedError
from calve.table.kinds import Limit, primitive
from calve.table.loaded import Table

__all__ = ["check_types"]


def check_types(table: Table, option: str, limits: Limit, step: str, hint: str) -> None:
    """Check that Spark, which finds the older rows, can handle all column types.

    Args:
        table: The table.
        option: Why Spark finds them.
        limits: What types may not have.
        step: What is done.
        hint: What to do about it.

    Raises:
        UnsupportedError: It cannot handle one.
    """
    for name in table.schema.column_names:
        kind = table.schema.find_type(name)
        if limits & primitive(kind).limits:
            raise UnsupportedError(
                f"Spark, which finds the rows for {option}, cannot handle {name} ({kind})",
                step=step,
                target=table.identifier,
                hint=hint,
            )
