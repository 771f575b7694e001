"""Servers that tests share: each starts when the first test asks for it, and stops at the end of the run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from services.kafka import Kafka
from services.objects import ObjectStore


@pytest.fixture(scope="session")
def kafka_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """A Kafka broker for everybody; tests that break one start their own."""
    with Kafka(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture(scope="session")
def object_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    """An object store with a REST catalog for everybody; tests that break one start their own."""
    with ObjectStore(tmp_path_factory.mktemp("objects")) as store:
        yield store
