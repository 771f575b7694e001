"""The options that the sinks share which send the records of a batch at its end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

import pyarrow as pa

from calve.dead_letters.settings import FolderDeadLetters, prefix
from calve.expression import compile_format
from calve.settings import Size, option
from calve.sinks.settings import SinkSettings

__all__ = ["LineSettings", "has_operation"]


@dataclass(frozen=True)
class LineSettings(SinkSettings):
    """How events become lines of JSON."""

    serde_format: Literal["json", "debezium"] | None = option(
        None,
        "`json`: the event. `debezium`: Debezium's envelope, with `before`, `after` and `op`. Default: `debezium` if "
        "events are changes of rows, else `json`.",
    )
    operation: str | None = option(
        None,
        "The expression of an event's operation (`insert`, `update`, `delete` and so on). Default: that of the source, "
        "if it has changes; else every event is an insert.",
        check=compile_format,
    )
    flush_interval: timedelta = option(
        timedelta(seconds=1), "Maximum time that events wait before they are written.", unit="ms"
    )
    max_batch_bytes: Size = option(Size(64 << 20), "Maximum amount of data of a batch.", minimum=1)
    dlq: str | FolderDeadLetters | None = option(
        None,
        "The destination of rejected events: a folder or an object-store prefix. Default: `<state>/<pipeline>/dlq`.",
    )

    @property
    def dlq_prefix(self) -> str | None:
        """The location of dead letters, or None for the folder in the state."""
        return prefix(self.dlq)

    def check(self) -> Iterator[tuple[str, str]]:
        """Refuse options that exclude each other."""
        if self.dlq == "":
            yield "dlq", "needs a location; leave it out for <state>/<pipeline>/dlq"
        if self.serde_format == "json" and self.operation is not None:
            yield "serde_format", "json has no operation: a delete would look like a row; use debezium"

    def faults(
        self, stream: str | None, has_keys: bool, metadata: Mapping[str, pa.DataType]
    ) -> Iterable[tuple[str, str]]:
        """Refuse changes of rows as plain events: a deleted row would look like a new one."""
        if self.serde_format == "json" and (stream is not None or has_operation(metadata)):
            yield "serde_format", "json has no operation, but events are changes of rows; use debezium"


def has_operation(metadata: Iterable[str]) -> bool:
    """Return whether events with these attributes are changes of rows."""
    return not {"iceberg_operation", "operation"}.isdisjoint(metadata)
