"""A topic of ordinary events with hostile ones of every kind among them: each is a row or a dead letter, nothing stops.

    python bench/hostile.py [--events 1000000] [--hostile 1000]

Calve reads the topic once from a real Kafka broker, with `auto_create` and `schema_evolution`. Checked: exit code 0,
every ordinary event is a row once, every hostile one a row or a dead letter, and PyIceberg reads the table.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from kafka import TOPIC, YAML, busy_seconds, events
from running import Calve
from services.kafka import STEADY, Kafka

FIRST_ID = 10**9
"""Hostile events count from here."""
FIELDS = {
    "deep array": '"n":' + "[" * 130 + "]" * 130,
    "deep object": '"deep":' + '{"a":' * 130 + "1" + "}" * 130,
    "deeper than any parser": '"deep":' + "[" * 50_000 + "]" * 50_000,
    "dotted twin": '"a":{"b":1},"a.b":2',
    "case twin": '"Kind":"x"',
    "case twins at once": '"new":1,"NEW":2',
    "empty name": '"":1',
    "half a surrogate in a name": '"\\ud800":1',
    "control character in a name": '"a\\u0000b\\n":1',
    "reserved name": '"_file":"x","_pos":1,"_row_id":2',
    "long name": '"' + "y" * 10_000 + '":1',
    "many names": ",".join(f'"k{n}":{n}' for n in range(5_000)),
    "number of 10,000 digits": '"n":' + "9" * 10_000,
    "fraction of 10,000 digits": '"amount":0.' + "3" * 10_000,
    "number beyond a double": '"amount":1e400',
    "exponent": '"n":1e999999999',
    "integer beyond 64 bits": '"user_id":12345678901234567890',
    "integer beyond 53 bits beside fractions": '"amount":9007199254740993',
    "fraction in an integer column": '"n":9.5',
    "text in an integer column": '"n":"n/a"',
    "object in a text column": '"country":{"a":1}',
    "year 57973": '"at":"+57973-01-01T00:00:00Z"',
    "microseconds": '"at":1773712800000000',
    "nanoseconds": '"at":"2026-03-10T10:10:10.123456789Z"',
    "no date": '"at":"2026-02-30T00:00:00Z"',
    "half a surrogate": '"page":"\\ud800"',
    "null byte": '"page":"\\u0000"',
    "900 kB": '"page":"' + "x" * 900_000 + '"',
    "repeated key": '"n":1,"n":2',
    "mixed array": '"list":[1,"a",{"b":[]},null,[1.5]]',
    "new struct": '"address":{"zip":"00123","geo":{"lat":1.25}}',
    "nothing but nulls": '"x":null,"y":[null],"z":{}',
}
TEXTS = [
    b"",
    b"{",
    b"null",
    b"[]",
    b"[{}]",
    b'"x"',
    b"NaN",
    b"\xff\xfe",
    b'{"id":}',
    b'{"id":1}{"id":2}',
    b"{'id':1}",
    b"{}",
    b'{"id":NaN}',
    b'\xef\xbb\xbf{"id":1000009999}',
    b'{"id":"\xff"}',
    b'{"no_column_at_all":null}',
    b'{"id":01}',
    b'{"id":1,}',
]


def mixed(ordinary: int, hostile: int) -> Iterator[bytes]:
    """Return the ordinary events with the hostile ones spread among them."""
    every, made = max(ordinary // hostile, 1), 0
    for number, event in enumerate(events(ordinary, 1)):
        if number % every == 0 and made < hostile:
            yield _hostile(made)
            made += 1
        yield event


def _hostile(number: int) -> bytes:
    kinds = [*FIELDS.values(), *TEXTS]
    kind = kinds[number % len(kinds)]
    return kind if isinstance(kind, bytes) else f'{{"id":{FIRST_ID + number},"kind":"h",{kind}}}'.encode()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--hostile", type=int, default=1_000)
    chosen = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="calve-bench-") as place,
        Kafka(Path(place) / "kafka", options=STEADY) as broker,
    ):
        broker.create_topic(TOPIC, partitions=4)
        broker.produce(TOPIC, mixed(chosen.events, chosen.hostile), partitions=range(4))
        calve = Calve(Path(place) / "calve", YAML.format(address=broker.address, table="bench.events", batch="64mb"))
        busy, started = busy_seconds(), time.monotonic()
        calve.start("--once")
        code = calve.process.wait(3600)
        seconds, cpu = time.monotonic() - started, busy_seconds() - busy
        print(calve.said())
        _check(calve, chosen.events, chosen.hostile, code)
        print(f"{seconds:.1f} s, {cpu:.1f} CPU seconds")


def _check(calve: Calve, ordinary: int, hostile: int, code: int) -> None:
    ids = Counter(calve.rows("bench.events")["id"].to_pylist())
    rows = sum(count for id, count in ids.items() if id is None or id >= FIRST_ID)
    letters = list(calve.dead_letters("bench"))
    codes = Counter(letter["code"] for letter in letters)
    print(f"exit code {code}; hostile events: {rows} rows, {len(letters)} dead letters {json.dumps(codes)}")
    lost = ordinary - sum(1 for id, count in ids.items() if id is not None and id < FIRST_ID and count == 1)
    if code or lost or rows + len(letters) != hostile:
        raise SystemExit(f"{lost} ordinary events lost or duplicated; {rows + len(letters)} of {hostile} hostile ones")
    print(
        f"all {ordinary:,} ordinary events are rows, once each; all {hostile:,} hostile ones are rows or dead letters"
    )


if __name__ == "__main__":
    main()
