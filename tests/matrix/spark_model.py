"""The records that the killed Spark job reads, and what its tables and dead letters must be."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

__all__ = ["Expected", "record"]

COLOR_FROM, PLACE_FROM = 300, 900
"""The numbers of the first records with a new field."""
ALL = ("partition", "offset", "n", "k", "kind", "op", "text", "color", "place")
OF_KIND = tuple(name for name in ALL if name != "kind")


def record(n: int) -> tuple[int, str]:
    """Return the key and the value of a record; keys come again, and there are more of them as time goes on."""
    key = n * 7919 % (40 + n // 8)
    if n % 97 == 96:
        return key, f'{{"n": {n}, "k": {key}, "kin'
    event: dict[str, Any] = {"n": n, "k": key, "kind": f"kind{key // 150}", "text": "7" if n % 40 else "poison"}
    event["op"] = "delete" if n % 13 == 5 else "index"
    if n >= COLOR_FROM:
        event["color"] = f"c{n % 5}"
    if n >= PLACE_FROM:
        event["place"] = {"city": f"Zürich {n}"}
    for field, every in (("kind", 61), ("k", 71)):
        if n % every == 60:
            del event[field]
    return key, json.dumps(event)


class Expected:
    """What must be in the tables and the dead letters.

    Args:
        acknowledged: The value of each record in Kafka, by partition and offset.
    """

    def __init__(self, acknowledged: Mapping[tuple[int, int], str]) -> None:
        self.tables: dict[str, list[dict[str, Any]]] = {"shop.all": []}
        self._letters: Counter[tuple[int, int, str]] = Counter()
        rows: dict[tuple[str, int], dict[str, Any]] = {}
        for (partition, offset), value in sorted(acknowledged.items()):
            try:
                event = {"partition": partition, "offset": offset} | json.loads(value)
            except json.JSONDecodeError:
                self._letters[partition, offset, "PROCESSOR_FAILED"] += 1
                continue
            self._add(event)
            if "kind" not in event:
                self._letters[partition, offset, "NO_FIELD"] += 1
            elif "k" not in event:
                self._letters[partition, offset, "NO_KEY"] += 1
            else:
                self.tables.setdefault(f"shop.{event['kind']}", [])
                rows.pop((event["kind"], event["k"]), None)
                if event["op"] != "delete":
                    rows[event["kind"], event["k"]] = event
        for (kind, _), event in rows.items():
            self.tables[f"shop.{kind}"].append(event)

    @property
    def summary(self) -> str:
        """How many tables and dead letters there must be."""
        return f"{len(self.tables)} tables, {self._letters.total()} dead letters"

    def differences(self, stored_rows: Callable[[str, str], list[list[Any]]]) -> Iterator[str]:
        """Yield how the tables differ; `stored_rows` returns columns of a table."""
        for name, events in self.tables.items():
            columns = ALL if name == "shop.all" else OF_KIND
            wanted = Counter(_row([event.get(column) for column in columns]) for event in events)
            stored = Counter(map(_row, stored_rows(name, ", ".join(f'"{column}"' for column in columns))))
            if wanted != stored:
                lost, more = wanted - stored, stored - wanted
                yield f"{name}: {lost.total()} of {wanted.total()} rows are missing, {more.total()} are too many, " + (
                    f"e.g. {next(iter(lost), None)}, {next(iter(more), None)}"
                )

    def letters_differ(self, letters: Iterable[Mapping[str, Any]]) -> list[str]:
        """Return how the dead letters differ."""
        stored: Counter[tuple[int, int, str]] = Counter()
        for letter in letters:
            event = json.loads(letter["event"])
            stored[event["partition"], event["offset"], letter["code"]] += letter.get("count", 1)
        if stored == self._letters:
            return []
        lost, more = self._letters - stored, stored - self._letters
        return [f"dead letters: {lost.total()} are missing, {more.total()} are too many, e.g. {[*lost, *more][:3]}"]

    def _add(self, event: dict[str, Any]) -> None:
        if event["text"] == "poison":
            self._letters[event["partition"], event["offset"], "NOT_COERCIBLE"] += 1
        else:
            self.tables["shop.all"].append(event | {"text": int(event["text"])})


def _row(values: Iterable[Any]) -> tuple[str, ...]:
    return tuple(json.dumps(value, sort_keys=True, ensure_ascii=False) for value in values)
