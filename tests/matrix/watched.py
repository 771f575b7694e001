"""A table that two pipelines and a neighbour change, and the rows that it must have at each of its snapshots.

What the neighbour does to the rows is read from the table at his own commit: from then on these rows are the base, and
the events that the table did not have just before this commit come on top. So an event is expected once, unless the
neighbour removed it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pyspark.sql import SparkSession

from kit.running import Calve

__all__ = ["APPEND", "EVENTS", "Numbers", "Turn", "Watched"]

APPEND = "append"
EVENTS = 20
KEYS = 40
Rows = Counter[tuple[int, int | None]]


class Numbers:
    """The numbered events of one pipeline: event *n* is always the same. The last one of a delivery is a milestone.

    Args:
        first: The first number; its events have keys and numbers that no other pipeline's have.
        milestone: The key of the milestones.

    Attributes:
        sent: How many events were sent.
    """

    def __init__(self, first: int, milestone: int) -> None:
        self.first, self.milestone, self.sent = first, milestone, 0

    def change(self, count: int) -> tuple[str, int]:
        """Return what an event does, and to which key."""
        if count % EVENTS == EVENTS - 1:
            return "update", self.milestone
        return "delete" if count % 7 == 3 else "update", self.first + (count * 7919) % KEYS

    def owns(self, key: int) -> bool:
        """Return whether a key or a number is one of these events'."""
        return key == self.milestone or self.first <= key < self.first + 100_000_000

    def lines(self) -> str:
        """Return the next delivery."""
        made = []
        for count in range(self.sent, self.sent + EVENTS):
            op, key = self.change(count)
            n = self.first + count
            made.append(json.dumps({"n": n, "op": op, "id": key, "v": n, "extra": n}) + "\n")
        return "".join(made)

    def apply(self, rows: Rows, applied: int, until: int, by_key: bool) -> Rows:
        """Return what the events from one number to another make of rows."""
        if not by_key:
            return rows + Counter((self.first + n, self.first + n) for n in range(applied, until))
        last = {key: (op, n) for n in range(applied, until) for op, key in [self.change(n)]}
        kept = Counter({row: many for row, many in rows.items() if row[0] not in last})
        kept.update((key, self.first + n) for key, (op, n) in last.items() if op != "delete")
        return kept


Turn = tuple[int | None, int | None]
"""The snapshots just before and at a commit of the neighbour that changed rows."""


class Watched:
    """One table of the embedded catalog.

    Args:
        calve: Knows the catalog.
        spark: Reads the table.
        mode: A write mode, or `append`.
        numbers: The events of each pipeline.
    """

    def __init__(self, calve: Calve, spark: SparkSession, mode: str, numbers: list[Numbers]) -> None:
        self.mode, self.identifier = mode, f"to.{mode.replace('-', '_')}"
        self.name = f"lakehouse.{self.identifier}"
        self.key = "n" if mode == APPEND else "id"
        self.spark = spark
        self._calve, self._numbers = calve, numbers
        self._base: Rows = Counter()
        self._applied = [0 for _ in numbers]

    def create(self) -> None:
        """Make the table."""
        columns = "n BIGINT, " if self.mode == APPEND else ""
        self.spark.sql(
            f"CREATE TABLE {self.name} ({columns}id BIGINT, v INT, extra BIGINT) USING iceberg TBLPROPERTIES "
            "('format-version'='2', 'write.delete.isolation-level'='snapshot', "
            "'write.update.isolation-level'='snapshot', 'write.merge.isolation-level'='snapshot')"
        )

    def metadata(self) -> Any:
        """Return the table's current metadata as PyIceberg's table."""
        return self._calve.catalog().load_table(self.identifier)

    def rows(self, snapshot: int | None = None) -> Rows:
        """Return the rows at a snapshot, or now."""
        at = f" VERSION AS OF {snapshot}" if snapshot else ""
        found = self.spark.sql(f"SELECT {self.key} AS k, v FROM {self.name}{at}").collect()
        return Counter((row.k, row.v) for row in found)

    def now(self) -> tuple[Rows, list[int]]:
        """Return the rows of the current snapshot, and how many events of each pipeline they have."""
        rows = self.rows(self.metadata().metadata.current_snapshot_id)
        return rows, self.reached(rows)

    def reached(self, rows: Rows) -> list[int]:
        """Return how many events of each pipeline rows have."""
        return [max(done, self._milestone(rows, numbers)) for done, numbers in zip(self._applied, self._numbers)]

    def _milestone(self, rows: Rows, numbers: Numbers) -> int:
        if self.mode == APPEND:
            found = [key for key, _ in rows if numbers.owns(key)]
        else:
            found = [v for key, v in rows if key == numbers.milestone and v is not None]
        return max(found, default=numbers.first - 1) - numbers.first + 1

    def compare(self, rows: Rows) -> tuple[Rows, Rows]:
        """Return what rows lack, and what they have too much."""
        expected, by_key = self._base, self.mode != APPEND
        for done, now, numbers in zip(self._applied, self.reached(rows), self._numbers):
            expected = numbers.apply(expected, done, now, by_key)
        return expected - rows, rows - expected

    def accept(self, turn: Turn) -> tuple[Rows, Rows]:
        """Compare the rows just before the neighbour's commit; those at his commit are the base from now on."""
        before, made = turn
        rows = self.rows(before) if before else Counter()
        wrong = self.compare(rows) if before else (Counter(), Counter())
        self._applied = self.reached(rows)
        self._base = self.rows(made) if made else Counter()
        return wrong

    def accept_new(self) -> None:
        """A new table stands in the place of the old one: each pipeline began with one of its deliveries."""
        self._base, self._applied = Counter(), [0 for _ in self._numbers]
        self.accept_gap()

    def accept_gap(self) -> None:
        """What pipelines committed last before the base may be missing, from one delivery to another.

        Iceberg replaces a table by what it made of the metadata at its begin. Commits that came meanwhile are gone, with
        their marks, and nothing in the new metadata tells of them.
        """
        rows = self.rows()
        self._applied = [self._began(rows, *each) for each in zip(self._applied, self.reached(rows), self._numbers)]

    def _began(self, rows: Rows, applied: int, reached: int, numbers: Numbers) -> int:
        base, own = (
            Counter({row: many for row, many in some.items() if numbers.owns(row[0])}) for some in (self._base, rows)
        )
        for began in range(applied, reached + 1, EVENTS):
            if numbers.apply(base, began, reached, self.mode != APPEND) == own:
                return began
        return applied

    def turn(self, since: str) -> Turn | None:
        """Return the neighbour's commit after a version of the metadata, if there is one that changed rows."""
        metadata = self.metadata()
        versions = [one.metadata_file for one in metadata.metadata.metadata_log] + [metadata.metadata_location]
        start = versions.index(since) if since in versions else 0
        for before, after in pairwise(_read(one) for one in versions[start:]):
            if found := _turn(before, after):
                return found
        return None


def _read(location: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(urlsplit(location).path).read_bytes())
    return found


def _turn(before: dict[str, Any], after: dict[str, Any]) -> Turn | None:
    old, new = (one.get("current-snapshot-id") for one in (before, after))
    old, new = (None if one == -1 else one for one in (old, new))
    if old == new:
        return None
    line = list(_line(after, new, old))
    if old is not None and (not line or line[-1].get("parent-snapshot-id") != old):
        return old, new  # the branch points elsewhere
    newest = line[0][
        "summary"
    ]  # one swap is one writer's, and a merge of Calve has two snapshots, of which one is marked
    if "calve.pipeline" in newest or newest["operation"] == "replace":
        return None
    return old, new


def _line(metadata: dict[str, Any], newest: int | None, oldest: int | None) -> Iterator[dict[str, Any]]:
    """Yield the snapshots from the newest one back to that after the oldest."""
    known = {one["snapshot-id"]: one for one in metadata.get("snapshots", [])}
    at = newest
    while at is not None and at != oldest and at in known:
        yield known[at]
        at = known[at].get("parent-snapshot-id")
