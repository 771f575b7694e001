"""Decode envelopes of change streams in one thread, without the rest of a task, beside the exact decoder.

Run: make bench-envelopes BENCH="--changes 100000 --runs 5". For each kind of envelope: CPU µs a change, megabytes a
second, the exact decoder's µs a change, and the share that is left to it. CALVE_CORE=off measures it without the core.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from bench.upserts import Changes as PlainChanges
from calve.event.envelope import decoder
from calve.event.envelope.decoder import EnvelopeDecoder, Envelopes
from calve.event.envelope.exact import RequestedAttributes, decode, text_of
from calve.event.envelope.shape import SHAPES
from kit.debezium_events import Changes

_WANTED = {
    "debezium": RequestedAttributes(frozenset({"debezium_source_table", "debezium_ts_ms"}), frozenset({"id"})),
    "maxwell": RequestedAttributes(frozenset({"maxwell_table"}), frozenset({"id"})),
    "dms": RequestedAttributes(frozenset({"dms_table"}), frozenset({"id"})),
}
_EXACT = 2_000


def debezium(count: int, wrapped: bool) -> list[bytes]:
    """Nine columns, a block `source`; perhaps with the schema in each record."""
    return [value for _, value in Changes(count, count // 2 + 1, wrapped) if value is not None]


def nested(count: int) -> list[bytes]:
    """Rows with an object, a list and a number of 19 digits."""

    def row(number: int) -> str:
        place = f'{{"lat":46.{number},"lon":7.25,"tags":["a","b{number}"]}}'
        return f'{{"id":{number},"amount":12345678901234{number % 10}.1234,"place":{place},"note":"it\\"s {number}"}}'

    source = '"source":{"connector":"mysql","name":"shop","ts_ms":1767225600000,"db":"shop","table":"places"}'
    return [
        f'{{"before":null,"after":{row(number)},{source},"op":"c","ts_ms":1767225600123}}'.encode()
        for number in range(count)
    ]


def maxwell(count: int) -> list[bytes]:
    """Updates with the columns that changed."""
    row = '"data":{{"id":{0},"name":"customer {0}","city":"Bern","n":{0}}},"old":{{"n":1}}'
    text = (
        '{{"database":"shop","table":"customers","type":"update","ts":1767225600,"xid":{0},"commit":true,' + row + "}}"
    )
    return [text.format(number).encode() for number in range(count)]


def dms(count: int) -> list[bytes]:
    """Updates with the row before."""
    about = (
        '"metadata":{{"timestamp":"2026-01-01T00:00:00.123456Z","record-type":"data","operation":"update",'
        '"partition-key-type":"primary-key","schema-name":"public","table-name":"customers","transaction-id":{0}}}'
    )
    row = '{{"data":{{"id":{0},"name":"customer {0}","city":"Bern"}},"before-image":{{"id":{0},"city":"Basel"}},'
    return [(row + about + "}}").format(number).encode() for number in range(count)]


def two_tables(count: int) -> list[bytes]:
    """Changes with a schema, of two tables in turn."""
    made = debezium(count, True)
    return [value.replace(b"visits", b"calls") if number % 2 else value for number, value in enumerate(made)]


KINDS: dict[str, tuple[str, Callable[[int], list[bytes]]]] = {
    "debezium, six columns": ("debezium", lambda count: [value for _, value in PlainChanges(count, count // 2 + 1)]),
    "debezium, nine columns, source": ("debezium", lambda count: debezium(count, False)),
    "the same with its schema": ("debezium", lambda count: debezium(count, True)),
    "with schema, two tables": ("debezium", two_tables),
    "debezium, nested rows": ("debezium", nested),
    "maxwell": ("maxwell", maxwell),
    "dms": ("dms", dms),
}


def batches(form: str, values: list[bytes], runs: int) -> Iterator[float]:
    """Yield the CPU seconds of a batch; the first one, with what has to be learnt, does not count."""
    events = pa.table({"event": pa.array(values, pa.binary())})
    reader = EnvelopeDecoder(Envelopes(form, _WANTED[form]))
    reader.decode(events)
    for _ in range(runs):
        started = time.process_time()
        reader.decode(events)
        yield time.process_time() - started


def exactly(form: str, values: list[bytes]) -> float:
    """Return the CPU seconds a change of the exact decoder."""
    some = random.Random(1).sample(values, min(_EXACT, len(values)))
    started = time.process_time()
    for value in some:
        for change in decode(SHAPES[form], value, None, _WANTED[form]):
            text_of(change.row)
    return (time.process_time() - started) / len(some)


def left(form: str, values: list[bytes]) -> float:
    """Return the share of changes that the exact decoder gets."""
    count = 0

    def counted(*given: Any) -> Any:
        nonlocal count
        count += 1
        return decode(*given)

    decoder.decode = counted  # type: ignore[assignment]
    EnvelopeDecoder(Envelopes(form, _WANTED[form])).decode(pa.table({"event": pa.array(values, pa.binary())}))
    decoder.decode = decode
    return count / len(values)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--changes", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    chosen = parser.parse_args()
    found = {}
    for name, (form, make) in KINDS.items():
        values = make(chosen.changes)
        seconds = statistics.median(batches(form, values, chosen.runs)) / len(values)
        size = sum(map(len, values)) / len(values)
        exact = exactly(form, values)
        found[name] = {"us": seconds * 1e6, "exact_us": exact * 1e6, "left": left(form, values), "bytes": size}
        if not chosen.json:
            print(
                f"{name:32} {size:5.0f} bytes: {seconds * 1e6:6.2f} µs a change, {size / seconds / 1e6:6.0f} MB/s; "
                f"exact {exact * 1e6:5.1f} µs, {exact / seconds:5.1f} times; left {left(form, values):.1%}",
                flush=True,
            )
    if chosen.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
