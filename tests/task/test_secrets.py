"""A task's process leaves the secrets of its job out of its errors and log lines, as the driver does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from calve import credentials
from calve.record.receipt import Failure
from calve.serde.settings import SchemaSettings, Serde
from calve.sinks.opensearch.client import Access, Client
from calve.sources.kafka.access import KafkaAuthentication, Login, Sasl
from calve.sources.kafka.settings import KafkaSettings, TopicSettings
from calve.sources.source import Split
from calve.task import secrets
from calve.task.job import Job
from calve.task.task import run_task


@pytest.fixture(autouse=True)
def new_process() -> Iterator[None]:
    """Know no secrets, as a process of an executor."""
    credentials.forget()
    secrets._pipelines.clear()
    yield
    credentials.forget()
    secrets._pipelines.clear()


@dataclass(frozen=True)
class Fails:
    """A reader that fails with what it knows."""

    settings: KafkaSettings
    properties: dict[str, str]

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        raise OSError(f"{self.settings.client()} {self.properties}")


def test_the_failure_of_a_task_has_no_secret_of_its_job() -> None:
    login = KafkaAuthentication(sasl=Sasl(plaintext=Login(username="reader", password="h4rd/to guess")))
    settings = KafkaSettings(bootstrap_servers="b:9092", topics=[TopicSettings(name="t")], authentication=login)
    reader: Any = Fails(settings, {"s3.secret-access-key": "another+secret", "s3.region": "eu-central-1"})
    schema = SchemaSettings(
        registry_url="https://r:8081", schema_registry_api_key="k", schema_registry_api_secret="third one"
    )
    failure = run_task(Job("p", "run", reader, (), 3, serde=Serde("avro", schema)), [Split({})], 0)
    assert isinstance(failure, Failure)
    assert "reader" in failure.message
    for secret in ("h4rd/to guess", "another+secret"):
        assert secret not in str(failure)
    assert credentials.without_credentials("is third one wrong?") == "is … wrong?"


def test_the_client_of_opensearch_knows_its_password_in_tasks() -> None:
    Client(Access(("http://127.0.0.1:1",), login=("admin", "fourth one")))
    assert credentials.without_credentials("admin fourth one") == "admin …"
