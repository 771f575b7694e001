"""What the matrix of kills puts into a source: changes of few keys, which a dictionary gets as well, and bad events."""

from __future__ import annotations

import itertools
import json
import queue
import random
import threading
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any, Protocol

from pyspark.sql import SparkSession

from kit.running import Calve, post
from services.kafka import Kafka

__all__ = ["Changes", "Feed", "FileFeed", "HttpFeed", "KafkaFeed", "TableFeed"]

KEYS = 40
MOST_EVENTS = 200
BAD = 0.03


class Changes:
    """Random changes, and what they make; each delivery has a field that no event before had.

    Attributes:
        rows: The value of each key that is there.
        numbers: How many good events there are; they count from 0.
        deliveries: How many deliveries were made.
        bad: The texts of the bad events.
    """

    def __init__(self, chance: random.Random, bad: float = BAD) -> None:
        self.chance = chance
        self._bad_share = bad
        self.rows: dict[int, int] = {}
        self.numbers = self.deliveries = 0
        self.bad: Counter[str] = Counter()

    def events(self) -> list[str]:
        """Make up the events of one delivery, as JSON."""
        count = self.chance.randint(1, MOST_EVENTS)
        self.deliveries += 1
        return [self._bad() if self.chance.random() < self._bad_share else self._good() for _ in range(count)]

    def _bad(self) -> str:
        text = f'{{"n": bad {self.bad.total()}'
        self.bad[text] += 1
        return text

    def _good(self) -> str:
        key, number = self.chance.randrange(KEYS), self.numbers
        self.numbers += 1
        operation = "delete" if self.chance.random() < 0.3 else "update" if key in self.rows else "insert"
        if operation == "delete":
            self.rows.pop(key, None)
        else:
            self.rows[key] = number
        do = "delete" if operation == "delete" else "index"
        more = {f"more_{self.deliveries}": number}
        return json.dumps({"n": number, "op": operation, "do": do, "id": key, "v": number, **more})


class Feed(Protocol):
    """Gives events to one source of one pipeline.

    Attributes:
        changes: What it gave.
        source: The `source:` of the pipeline.
        is_once: Whether `run --once` reads all of it.
    """

    changes: Changes
    source: Mapping[str, Any]
    is_once: bool

    def give(self, calve: Calve) -> None:
        """Give one delivery; called before a process starts."""

    def end(self) -> None:
        """Give no more; all that was given is accepted when this returns."""


class FileFeed:
    """Files in a folder."""

    is_once = True

    def __init__(self, chance: random.Random) -> None:
        self.changes = Changes(chance)
        self.source = {"file": {"path": "in/*.ndjson"}}
        self._names = itertools.count()

    def give(self, calve: Calve) -> None:
        folder = calve.folder / "in"
        folder.mkdir(exist_ok=True)
        new = folder / ".new"
        new.write_text("".join(f"{line}\n" for line in self.changes.events()))
        new.rename(folder / f"{next(self._names):06}.ndjson")

    def end(self) -> None:
        """Nothing is left to accept."""


class KafkaFeed:
    """A topic; one partition, because the order of changes counts."""

    is_once = True

    def __init__(self, chance: random.Random, broker: Kafka, topic: str) -> None:
        self.changes = Changes(chance)
        topics = [{"name": topic, "group_id": "matrix", "serde_format": "json"}]
        self.source = {"kafka": {"bootstrap_servers": [broker.address], "topics": topics}}
        self._broker, self._topic = broker, topic
        broker.create_topic(topic)

    def give(self, calve: Calve) -> None:
        self._broker.produce(self._topic, self.changes.events())

    def end(self) -> None:
        """Nothing is left to accept."""


class HttpFeed:
    """Requests with keys, each repeated until it is accepted, whichever process is there."""

    is_once = False

    def __init__(self, chance: random.Random, port: int) -> None:
        self.changes = Changes(chance, bad=0)  # a request with an event that is no JSON is refused as a whole
        self.source = {"http": {"port": port, "log_folder": "log"}}
        self._port = port
        self._deliveries: queue.Queue[bool] = queue.Queue()
        self._thread = threading.Thread(target=self._send, daemon=True)
        self._thread.start()

    def give(self, calve: Calve) -> None:
        self._deliveries.put(True)

    def end(self) -> None:
        self._deliveries.put(False)
        self._thread.join(300)
        assert not self._thread.is_alive(), "requests are not accepted"

    def _send(self) -> None:
        for number in itertools.count():
            if not self._deliveries.get():
                return
            events = [json.loads(text) for text in self.changes.events()]
            while post(self._port, events, f"request-{number}", timeout=5) != 200:
                time.sleep(0.05)


class TableFeed:
    """Changes of a table by Spark's SQL."""

    is_once = True

    def __init__(self, chance: random.Random, spark: SparkSession, table: str, catalog: Mapping[str, Any]) -> None:
        self.changes = Changes(chance)
        self.source = {
            "iceberg": {"tables": [{"table_name": table, "identifier_columns": ["id"]}], "catalog": dict(catalog)}
        }
        self._spark, self._name = spark, f"lakehouse.{table}"
        spark.sql("CREATE NAMESPACE IF NOT EXISTS lakehouse.db")
        spark.sql(f"CREATE TABLE {self._name} (id BIGINT, v BIGINT) USING iceberg TBLPROPERTIES ('format-version'='2')")

    def give(self, calve: Calve) -> None:
        changes, chance = self.changes, self.changes.chance
        mode = chance.choice(("copy-on-write", "merge-on-read"))
        modes = ", ".join(f"'write.{what}.mode'='{mode}'" for what in ("update", "delete", "merge"))
        self._spark.sql(f"ALTER TABLE {self._name} SET TBLPROPERTIES ({modes})")
        self._spark.sql(f"ALTER TABLE {self._name} ADD COLUMN more_{changes.numbers} BIGINT")
        for _ in range(chance.randint(1, 2)):
            changes.numbers += 1
            keys = sorted(chance.sample(range(KEYS), chance.randint(1, KEYS // 2)))
            listed = ", ".join(map(str, keys))
            if chance.random() < 0.3:
                self._spark.sql(f"DELETE FROM {self._name} WHERE id IN ({listed})")
                changes.rows = {key: value for key, value in changes.rows.items() if key not in keys}
            else:
                given = f"(SELECT explode(array({listed})) AS id, {changes.numbers} AS v)"
                self._spark.sql(
                    f"MERGE INTO {self._name} t USING {given} s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v "
                    "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, CAST(s.v AS BIGINT))"
                )
                changes.rows.update(dict.fromkeys(keys, changes.numbers))

    def end(self) -> None:
        """Nothing is left to accept."""
