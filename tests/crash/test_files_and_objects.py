"""A writer appends, rotates, and announces objects while the pipelines are killed: each event is one row."""

from __future__ import annotations

import json
import os
import random
import threading
import time
import uuid
from collections import Counter
from pathlib import Path

import obstore
import pytest

from calve.sources.s3.objects import store_of
from calve.sources.s3.settings import AwsAccount
from kit.running import Calve
from services.objects import ACCESS_KEY, BUCKET, REGION, SECRET_KEY
from services.queue import SqsQueue

KILLS = int(os.environ.get("CALVE_KILLS", "1"))
YAML = """
access:
  source:
    file: {{path: "app.log*", codec: {{ndjson: {{}}}}, tail: true, poll_interval: 100ms, rotate_wait: 200ms}}
  sink:
    - iceberg:
        table_identifier: logs.access
        auto_create: true
        flush_interval: 200ms
        commit_interval: 400ms
traces:
  source:
    file: {{path: traces.log, codec: {{multiline: {{begins_with: '\\d'}}}}, tail: true, flush_after: 1s}}
  sink:
    - iceberg:
        table_identifier: logs.traces
        auto_create: true
        flush_interval: 200ms
        commit_interval: 400ms
objects:
  source:
    s3: {{sqs: {{queue_url: "{queue}", visibility_timeout: 30s}}, codec: {{ndjson: {{}}}}, aws: {aws}}}
  sink:
    - iceberg:
        table_identifier: logs.objects
        auto_create: true
        flush_interval: 200ms
        commit_interval: 400ms
"""


class Announcer(threading.Thread):
    """Writes objects and announces them, some twice, some together; messages come again at any time."""

    def __init__(self, queue: SqsQueue, aws: AwsAccount, seed: int) -> None:
        super().__init__(daemon=True)
        self.queue, self.chance, self.ended = queue, random.Random(seed), threading.Event()
        self.store, self.prefix, self.written = store_of(aws, BUCKET), f"{uuid.uuid4().hex}/", 0

    def run(self) -> None:
        while not self.ended.wait(0.3):
            records = []
            for _ in range(self.chance.randrange(1, 4)):
                key = f"{self.prefix}{self.written}.ndjson"
                data = b"".join(b'{"id": %d}\n' % (self.written + n) for n in range(20))
                tag = obstore.put(self.store, key, data)["e_tag"]
                found = {"key": key, "size": len(data), "eTag": str(tag).strip('"')}
                where = {"bucket": {"name": BUCKET}, "object": found}
                records.append({"eventSource": "aws:s3", "eventName": "ObjectCreated:Put", "s3": where})
                self.written += 20
            for _ in range(self.chance.choice([1, 1, 2])):
                self.queue.send({"Records": records})
            if self.chance.random() < 0.1:
                self.queue.redeliver()


class Writer(threading.Thread):
    """Appends lines in pieces of any size, half lines too, and renames the file after some of them."""

    def __init__(self, folder: Path, seed: int) -> None:
        super().__init__(daemon=True)
        self.access, self.traces = folder / "app.log", folder / "traces.log"
        self.chance, self.ended, self.written, self.rotated = random.Random(seed), threading.Event(), 0, 0

    def run(self) -> None:
        while not self.ended.wait(0.1):
            text = "".join(f'{{"id": {self.written + n}}}\n' for n in range(self.chance.randrange(1, 60)))
            at = self.chance.randrange(len(text))
            for part in (text[:at], text[at:]):
                with self.access.open("a") as file:
                    file.write(part)
                time.sleep(0.002)
            with self.traces.open("a") as file:
                file.writelines(f"{self.written + n}\n  at line\n" for n in range(text.count("\n")))
            self.written += text.count("\n")
            if self.chance.random() < 0.1:
                self.rotated += 1
                self.access.rename(self.access.with_name(f"app.log.{self.rotated}"))


@pytest.fixture
def queue():
    with SqsQueue() as started:
        yield started


@pytest.mark.crash
@pytest.mark.services
@pytest.mark.spark
def test_each_line_and_each_object_is_read_once_whatever_is_killed(spark, tmp_path, queue, object_store):
    seed = random.randrange(1 << 30)
    chance = random.Random(seed)
    aws = {"region": REGION, "endpoint": object_store.endpoint}
    aws |= {"access_key_id": ACCESS_KEY, "secret_access_key": SECRET_KEY}
    calve = Calve(tmp_path, YAML.format(queue=queue.url, aws=json.dumps(aws)), spark)
    writer, announcer = Writer(tmp_path, seed), Announcer(queue, AwsAccount(**aws), seed)
    writer.start()
    announcer.start()
    try:
        started = time.monotonic()
        calve.start()
        for name in ("access", "traces", "objects"):
            calve.until(lambda name=name: calve.status(name).get("tables"), "the first rows are committed")
        seconds = time.monotonic() - started
        calve.kill()
        for _ in range(KILLS - 1):
            calve.start()
            time.sleep(chance.uniform(0.4, 1.2) * seconds)
            calve.kill()
        for thread in (writer, announcer):
            thread.ended.set()
            thread.join()
        queue.redeliver()
        os.utime(writer.traces, (time.time() - 3600,) * 2)
        assert calve.once() == 0, calve.said()[-2000:]
    finally:
        writer.ended.set()
        announcer.ended.set()
        calve.end()
    assert writer.rotated
    access = Counter(calve.rows("logs.access").column("id").to_pylist())
    assert access == Counter(range(writer.written)), f"seed {seed}"
    traces = Counter(calve.rows("logs.traces").column("message").to_pylist())
    assert traces == Counter(f"{number}\n  at line" for number in range(writer.written)), f"seed {seed}"
    objects = Counter(calve.rows("logs.objects").column("id").to_pylist())
    assert objects == Counter(range(announcer.written)), f"seed {seed}"
    assert not queue.messages
    assert not any(calve.dead_letters(name) for name in ("access", "traces", "objects"))
