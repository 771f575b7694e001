"""The page about Kafka, S3 and a REST catalog, and that about a state on an object store, run as they are printed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import yaml
from pyiceberg.catalog import load_catalog

from kit.documents import run_lines, runnable, yamls
from kit.running import Calve
from services.kafka import Kafka
from services.objects import ObjectStore


@pytest.mark.spark
@pytest.mark.services
def test_only_addresses_and_keys_differ_from_the_pages(
    kafka_broker: Kafka, object_store: ObjectStore, calve: Callable[..., Calve], monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = object_store.rest_catalog()
    for name, value in (object_store.environment() | {"CATALOG_CREDENTIAL": theirs.pop("credential")}).items():
        monkeypatch.setenv(name, value)
    configuration = yaml.safe_load(yamls("docs/lakehouse.md")[0])
    pipeline = configuration["orders"]
    pipeline["source"]["kafka"] |= {"bootstrap_servers": [kafka_broker.address]}
    [topic], [sink] = pipeline["source"]["kafka"]["topics"], pipeline["sink"]
    topic["name"] = "lakehouse-page"
    sink["iceberg"]["table_identifier"] = "page.orders"
    sink["iceberg"]["catalog"] |= theirs
    kafka_broker.create_topic("lakehouse-page")
    kafka_broker.produce("lakehouse-page", ['{"id": 1, "ordered_at": "2026-01-31T12:00:00Z"}'])
    job = calve(yaml.safe_dump(configuration))
    (job.folder / "orders.yaml").write_text(yaml.safe_dump(configuration))
    [lakehouse], (state, _) = runnable("docs/lakehouse.md"), runnable("docs/state.md")
    for number, block in enumerate((lakehouse, state)):
        run_lines(job, block.replace("s3://my-bucket/calve", object_store.place(f"page-{number}")))
        sink["iceberg"]["table_identifier"] = "page.again"  # a table belongs to one state
        (job.folder / "orders.yaml").write_text(yaml.safe_dump(configuration))
    catalog = load_catalog("theirs", **object_store.rest_catalog())
    for table in ("page.orders", "page.again"):
        assert catalog.load_table(table).scan().to_arrow()["id"].to_pylist() == [1]
