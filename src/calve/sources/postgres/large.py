"""Completes updates whose large values the server left out because they did not change (TOAST).

A value is taken from the old row, if the table has REPLICA IDENTITY FULL, else from the table as it is by now. Then it
may be newer than the update; the update that made it newer comes later in the stream. A row that is gone by now gets
NULL; its delete comes later in the stream. All this holds only once other sessions see the update: the stream may have
it a moment before, with a synchronous standby long before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from calve.sources.database.change import UPDATE, Change, Values
from calve.sources.database.connection import ClosedError, ServerError
from calve.sources.database.table import DatabaseTable
from calve.sources.postgres.protocol import pgoutput
from calve.sources.postgres.protocol.pgoutput import UNCHANGED
from calve.sources.postgres.protocol.quote import literal, quoted
from calve.sources.postgres.protocol.wire import PostgresConnection

__all__ = ["are_visible", "complete", "from_old", "lacks_values"]

_CHANGED = ("42P01", "42703", "3F000")
"""The codes for a table, column or schema that does not exist: it was renamed or dropped between two queries."""
_TRIES = 5
_NAMES = """
select n.nspname, c.relname, a.attnum, a.attname, c.relkind
from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
where c.oid = {oid}
"""
_AT_ONCE = 500
_PARTITIONED = "p"
_NUMBERS = 1 << 32
"""The numbers of transactions in the stream begin again here."""
_MAY_LACK = re.compile(rb"(?<![nu])n*u[nu]*(?:t[\x00-\x3f]|\Z)").search
"""Finds every value that is left out (others and NULLs follow, then a length below 1 GiB, or the end); texts, too. It
looks at a run of such bytes once, from its beginning, so that a long text of them takes no longer than another."""


def lacks_values(message: bytes) -> Change | None:
    """Return an update that lacks values, else None; values of the old row are not yet looked for."""
    if message[:1] != UPDATE or not _MAY_LACK(message):
        return None
    change = pgoutput.change(message)
    return change if any(value is UNCHANGED for value in change.new or ()) else None


def are_visible(transactions: Iterable[int], connection: PostgresConnection) -> bool:
    """Return whether a session sees transactions, by their numbers, which have committed.

    Raises:
        ClosedError: The connection was lost.
        ServerError: The server refuses.
    """
    [[snapshot]] = connection.query("select txid_current_snapshot()")
    _, end, running = (snapshot or "").split(":")
    unseen = {int(number) % _NUMBERS for number in running.split(",") if number}
    return all(number not in unseen and (int(end) - 1 - number) % _NUMBERS < _NUMBERS // 2 for number in transactions)


def complete(
    messages: list[bytes],
    lacking: Mapping[int, Change],
    tables: Mapping[int, DatabaseTable],
    connection: PostgresConnection,
) -> None:
    """Replace messages by complete ones.

    Args:
        messages: Messages of changes.
        lacking: Those that lack values, by their positions.
        tables: The tables by their numbers.
        connection: A session to read with.

    Raises:
        ClosedError: The connection was lost.
        ServerError: The server refuses.
    """
    groups: dict[tuple[int, tuple[int, ...]], list[int]] = {}
    rows: dict[int, Values] = {}
    for at, change in lacking.items():
        rows[at] = from_old(change)
        if missing := tuple(index for index, value in enumerate(rows[at]) if value is UNCHANGED):
            groups.setdefault((change.oid, missing), []).append(at)
    for (oid, missing), positions in groups.items():
        for start in range(0, len(positions), _AT_ONCE):
            part = [rows[at] for at in positions[start : start + _AT_ONCE]]
            _fill(part, missing, tables[oid], connection)
    for at, row in rows.items():
        messages[at] = pgoutput.with_values(messages[at], row)


def _fill(rows: Sequence[Values], missing: Sequence[int], table: DatabaseTable, connection: PostgresConnection) -> None:
    """Fill in the same missing values of rows of a table."""
    by_key = _read(table, missing, [_key(table, row) for row in rows], connection)
    for row in rows:
        values = by_key.get(_key(table, row), (None,) * len(missing))
        for index, value in zip(missing, values, strict=True):
            row[index] = value


def from_old(change: Change) -> Values:
    """Return the new row, with the values that it lacks from a whole old row."""
    old = change.old or []
    new = change.new or []
    is_whole = len(old) == len(new)  # of an old key all other values are NULL
    return [
        old[index] if value is UNCHANGED and is_whole and isinstance(old[index], bytes) else value
        for index, value in enumerate(new)
    ]


def _key(table: DatabaseTable, row: Values) -> tuple[bytes, ...]:
    return tuple(value if isinstance(value, bytes) else b"" for value in (row[index] for index in table.keys))


def _read(
    table: DatabaseTable, missing: Sequence[int], keys: Sequence[tuple[bytes, ...]], connection: PostgresConnection
) -> dict[tuple[bytes, ...], tuple[bytes | None, ...]]:
    """Return the values of rows by their keys; columns are found by their numbers, as their names may be older."""
    count = len(table.keys)
    numbers = [table.columns[index].number for index in (*table.keys, *missing)]
    wanted = ", ".join(f"({', '.join(literal(value.decode()) for value in key)})" for key in keys)
    for _ in range(_TRIES):
        now, names = _names(table.oid, connection)
        if any(number not in names for number in numbers[:count]):
            return {}
        columns = [names.get(number, "null") for number in numbers]
        sql = f"select {', '.join(columns)} from {now} where ({', '.join(columns[:count])}) in ({wanted})"
        try:
            rows = connection.query(sql)
        except ServerError as error:
            if error.code not in _CHANGED:
                raise
            continue
        encoded = [tuple(None if value is None else value.encode() for value in row) for row in rows]
        return {tuple(value or b"" for value in row[:count]): row[count:] for row in encoded}
    raise ClosedError(f"the columns of {table.full_name} changed on every attempt")


def _names(oid: int, connection: PostgresConnection) -> tuple[str, dict[int, str]]:
    """Return the current name of a table in SQL, and those of its columns by number."""
    rows = connection.query(_NAMES.format(oid=oid))
    if not rows:
        return "", {}
    only = "" if rows[0][4] == _PARTITIONED else "only "  # without the rows of tables that inherit from it
    now = f"{only}{quoted(rows[0][0] or '')}.{quoted(rows[0][1] or '')}"
    return now, {int(row[2] or 0): quoted(row[3] or "") for row in rows}
