"""Asks hostile servers with Calve's clients, in a process whose memory is measured: `python -m fuzz.server_clients`.

Each line of stdin is `{"kind": …, "port": …}`; for each a line of JSON says how the client ended.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from calve.errors import CalveError
from calve.serde.registry import Registry
from calve.serde.settings import SchemaSettings
from calve.sinks.opensearch import template
from calve.sinks.opensearch.bulk import Bulk
from calve.sinks.opensearch.client import Access, Client
from calve.sources.kafka import cluster
from calve.sources.kafka.settings import KafkaSettings, TopicSettings
from calve.sources.mysql import failure as mysql
from calve.sources.mysql.settings import MysqlSettings
from calve.sources.postgres import failure as postgres
from calve.sources.postgres.settings import PostgresSettings
from calve.sources.s3 import queue
from calve.sources.s3.settings import AwsAccount, Sqs

SHORT = timedelta(seconds=0.5)
LOGIN = {"host": "127.0.0.1", "username": "u", "password": "secret word", "connect_timeout": SHORT}


def ask_registry(port: int) -> None:
    registry = Registry(SchemaSettings(registry_url=f"http://127.0.0.1:{port}", timeout=SHORT))
    registry.schema(1)
    registry.earlier(1)


def ask_opensearch(port: int) -> None:
    client = Client(Access((f"http://127.0.0.1:{port}",), connect_seconds=0.5, socket_seconds=0.5))
    template.check_cluster(client)
    lines = pa.array(['{"index":{"_id":"1"}}\n{"a":1}\n'] * 3, pa.large_string())
    Bulk(client, 1 << 20, max_retries=1, pause=lambda seconds: None).send("i", lines)


def ask_sqs(port: int) -> None:
    queue._ANSWER_SECONDS = 0.5
    aws = AwsAccount(region="eu-central-1", access_key_id="a", secret_access_key="s")
    queue.Queue(Sqs(queue_url=f"http://127.0.0.1:{port}/1/q"), aws).receive(0, 30)


def ask_postgres(port: int) -> None:
    with postgres.session(PostgresSettings(**LOGIN, port=port, database="d"), "read", "fuzz"):
        pass


def ask_mysql(port: int) -> None:
    with mysql.session(MysqlSettings(**LOGIN, port=port), "read", "fuzz"):
        pass


def ask_kafka(port: int) -> None:
    cluster.ANSWER_SECONDS = cluster.BROKERS_SECONDS = 0.5
    settings = KafkaSettings(bootstrap_servers=f"127.0.0.1:{port}", topics=[TopicSettings(name="t")])
    cluster.Cluster(settings).topics()


CLIENTS: dict[str, Callable[[int], None]] = {
    "registry": ask_registry,
    "opensearch": ask_opensearch,
    "sqs": ask_sqs,
    "postgres": ask_postgres,
    "mysql": ask_mysql,
    "kafka": ask_kafka,
}


def memory_kb(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def outcome(kind: str, port: int) -> dict[str, Any]:
    """Return how a client ended: the error, whether it is one of Calve's, and how the memory grew."""
    Path("/proc/self/clear_refs").write_text("5")  # the largest size begins again
    before = memory_kb("VmRSS")
    error, is_clear = "", True
    try:
        CLIENTS[kind](port)
    except CalveError as raised:
        error = raised.message
    except Exception as raised:
        error, is_clear = f"{type(raised).__name__}: {raised}", False
    return {"error": error, "is_clear": is_clear, "grown_kb": memory_kb("VmHWM") - before}


def main() -> None:
    """Serve stdin."""
    logging.getLogger("calve").setLevel(logging.CRITICAL)
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # librdkafka
    for line in sys.stdin:
        print(json.dumps(outcome(**json.loads(line))), file=out, flush=True)


if __name__ == "__main__":
    main()
