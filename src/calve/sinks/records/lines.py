"""Lines of JSON, made of records. Runs on executors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from calve.sinks.records.record import OutgoingRecord

__all__ = ["lines"]

_BREAKS = bytes.maketrans(b"\r\n", b"  ")


def lines(records: Iterable[OutgoingRecord]) -> Iterator[tuple[OutgoingRecord, bytes]]:
    """Yield records with their lines; those without a value have none: the envelope of a delete says it already.

    A line break of an event is white space between its values, since texts in JSON have none.
    """
    for record in records:
        if record.value is not None:
            yield record, record.value.translate(_BREAKS) + b"\n"
