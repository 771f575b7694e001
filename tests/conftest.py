"""Servers that tests share: each starts when the first test asks for it, and stops at the end of the run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from pyspark.sql import SparkSession

from calve import credentials
from calve.catalog.catalog import Catalog, embedded
from calve.compiled.build import CHECKED, build, cargo_fault
from calve.compiled.library import VARIABLE
from calve.engine import session
from kit.examples import examples
from kit.readers import PlainSpark
from kit.running import SERIAL, TINY, Calve
from services import azurite as azure_service
from services import duckdb_iceberg
from services import gcs as google_service
from services.azurite import Azurite
from services.gcs import FakeGcs
from services.kafka import Kafka
from services.objects import ObjectStore
from services.opensearch import OpenSearch

_CONF = {**TINY, "spark.ui.retainedJobs": "1000", "spark.driver.extraJavaOptions": SERIAL}
"""So many that each batch of a run is found."""
_LAKE = {
    "spark.sql.caseSensitive": "true",
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
}

if VARIABLE not in os.environ:  # the processes that tests start use the same library
    if not (reason := build(checked=True)):
        os.environ[VARIABLE] = str(CHECKED)
    elif not cargo_fault():
        raise pytest.UsageError(f"{reason}\n{VARIABLE}=off runs the tests without the compiled core")

settings.register_profile("calve", max_examples=examples(40), deadline=None)  # nothing is timed: machines are shared
settings.load_profile("calve")


@pytest.fixture(autouse=True)
def _no_secrets_of_the_last_test() -> Iterator[None]:
    yield
    credentials.forget()


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One JVM for all tests that need one in their own process, with every jar."""
    engine = session.start("local[2]", _CONF, needs_s3=True)
    yield engine.session
    session.stop(engine)


@pytest.fixture(scope="session")
def lake_catalog(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    """The one catalog that Spark knows as `lake`; a session opens a catalog once."""
    properties = embedded(tmp_path_factory.mktemp("lakehouse")) | {"name": "lake"}
    Path(properties["warehouse"]).mkdir(exist_ok=True)
    spark.conf.set("spark.sql.catalog.lake", "org.apache.iceberg.spark.SparkCatalog")
    spark.conf.set("spark.sql.catalog.lake.cache-enabled", "false")
    for key, value in properties.items():
        if key != "name":
            spark.conf.set(f"spark.sql.catalog.lake.{key}", value)
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.db")
    return Catalog(session.start(), properties)


@pytest.fixture(scope="module")
def lake(spark: SparkSession, lake_catalog: Catalog) -> Iterator[Catalog]:
    """A catalog that Calve and Spark's SQL (as `lake`) both see, with the namespace `db`."""
    for key, value in _LAKE.items():
        spark.conf.set(key, value)
    yield lake_catalog
    for key in _LAKE:
        spark.conf.unset(key)


@pytest.fixture
def calve(spark: SparkSession, tmp_path: Path) -> Iterator[Callable[..., Calve]]:
    """Make a folder with a configuration, on the shared session; what runs in it ends with the test."""
    made: list[Calve] = []

    def make(yaml: str, name: str = "calve") -> Calve:
        made.append(Calve(tmp_path / name, yaml, spark))
        return made[-1]

    yield make
    for each in made:
        each.end()


@pytest.fixture(scope="session")
def plain_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlainSpark]:
    """A Spark that is not Calve's, which reads what Calve wrote."""
    reader = PlainSpark(tmp_path_factory.mktemp("plain-spark") / "log")
    yield reader
    reader.close()


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


@pytest.fixture(scope="session")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Azurite]:
    """Azure Blob Storage for everybody."""
    if azure_service.fetch() is None:
        pytest.skip(azure_service.MISSING)
    with Azurite(tmp_path_factory.mktemp("azurite")) as store:
        yield store


@pytest.fixture(scope="session")
def gcs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeGcs]:
    """Google Cloud Storage for everybody."""
    if google_service.fetch() is None:
        pytest.skip(google_service.MISSING)
    with FakeGcs(tmp_path_factory.mktemp("gcs")) as store:
        yield store


@pytest.fixture(scope="session")
def opensearch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenSearch]:
    """An OpenSearch node for everybody; tests that break one start their own."""
    with OpenSearch(tmp_path_factory.mktemp("opensearch")) as node:
        yield node


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run what is quick first: plain tests, then those with the JVM, with servers, and with kills."""
    marks = ("spark", "services", "crash")
    items.sort(
        key=lambda item: max((marks.index(mark) + 1 for mark in marks if item.get_closest_marker(mark)), default=0)
    )


@pytest.fixture(scope="module")
def duckdb() -> Iterator[duckdb_iceberg.Reader | None]:
    program = duckdb_iceberg.fetch()
    reader = duckdb_iceberg.Reader(program) if program else None
    yield reader
    if reader:
        reader.close()
