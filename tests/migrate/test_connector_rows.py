"""The real sink and Calve: each configuration of `connector_cases.py`, converted, writes the rows that the sink wrote."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from calve.migrate.connector_file import Connector
from calve.migrate.kafka_connect import pipeline_text
from kit.running import Calve
from migrate.connector_cases import CASES, ROWS, config, produce, rows
from services.kafka import Kafka

pytestmark = [pytest.mark.spark, pytest.mark.services]


def test_every_configuration_writes_the_rows_of_the_real_sink(
    calve: Callable[..., Calve], kafka_broker: Kafka, tmp_path: Path
) -> None:
    produce(kafka_broker)
    warehouse = tmp_path / "lakehouse"
    brokers = {"consumer.override.bootstrap.servers": kafka_broker.address}
    texts = [pipeline_text(Connector(name, config(name, warehouse) | brokers), name) for name in CASES]
    running = calve("\n".join(texts))
    assert running.once() == 0, running.said()[-4000:]
    expected = json.loads(ROWS.read_text())
    for case in CASES.values():
        expected |= case.rows or {}
    assert rows(warehouse) == expected
