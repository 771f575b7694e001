"""A compiled expression of a processor, as the driver sends it to the tasks."""

from __future__ import annotations

from dataclasses import dataclass

from calve.expression.condition import Condition
from calve.expression.format import Format

__all__ = ["Expression"]

_VOLATILE = ("now()", "uuid()")


@dataclass(frozen=True)
class Expression:
    """A compiled expression; pickled into the tasks.

    Attributes:
        sql: Its value over a relation with `json` and the metadata columns.
        fields: The fields of the event that it reads; None: possibly any.
        metadata: The metadata attributes that it reads.
    """

    sql: str
    fields: tuple[str, ...] | None
    metadata: tuple[str, ...]

    @staticmethod
    def of(compiled: Condition | Format) -> Expression:
        """Return a compiled condition or format string."""
        fields = None if compiled.fields is None else tuple(sorted(compiled.fields))
        return Expression(compiled.sql, fields, tuple(sorted(compiled.metadata)))

    @property
    def is_pure(self) -> bool:
        """Whether events with equal fields have equal values, so that a value can be remembered."""
        return self.fields is not None and not self.metadata and not any(word in self.sql for word in _VOLATILE)
