"""Where the killed Spark job runs: on this machine, or on a standalone cluster with all of its state in S3."""

from __future__ import annotations

import contextlib
import os
import random
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

from pyiceberg.catalog import load_catalog

from calve.engine.jvm import archive, jdk
from calve.engine.jvm import jars as own_jars
from calve.operate import bundle
from kit.readers import with_rust
from kit.running import TINY
from services import jars
from services.objects import ObjectStore
from services.spark_cluster import SparkCluster

__all__ = ["OnCluster", "OnThisMachine"]

WORKERS = 2
KAFKA_JARS = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.3!",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.1.1!",
    "org.apache.kafka:kafka-clients:3.9.1!",
    "org.apache.commons:commons-pool2:2.12.1!",
)
"""Maven Central has no set for Spark 4.1.4."""
S3A_JARS = (
    "org.apache.hadoop:hadoop-aws:3.4.2!",
    "software.amazon.awssdk:s3-transfer-manager:2.54.17!",
    "software.amazon.awssdk:apache-client:2.54.17!",
)
"""The other classes of its SDK are in Iceberg's bundle for AWS."""
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseParallelGC"


class OnThisMachine:
    """All in one folder, without a server.

    Args:
        folder: Has tables, state and checkpoint.

    Attributes:
        settings: Of the job.
        strikes: What is killed in turn.
    """

    strikes: ClassVar[tuple[str, ...]] = ("job", "point", "jvm", "point", "job", "point", "broker", "point")

    def __init__(self, folder: Path) -> None:
        self._warehouse = folder / "warehouse"
        files = own_jars.resolve(own_jars.needed())
        conf = {
            "spark.driver.extraClassPath": os.pathsep.join(map(str, files)),
            "spark.driver.extraJavaOptions": f"{QUICK} {archive.options(jdk.find(), files)}",
            "spark.jars": _paths(_kafka()),
            **_catalog({"type": "hadoop", "warehouse": self._warehouse.as_uri()}),
        }
        places = {"state": str(folder / "state"), "checkpoint": str(folder / "checkpoint")}
        self.settings: dict[str, Any] = {"master": "local[2]", "conf": conf, **places}

    @property
    def tables(self) -> dict[str, str]:
        """The newest metadata of each table."""
        folders = self._warehouse.glob("shop/*/metadata")
        return {f"shop.{folder.parent.name}": (folder / _newest(folder)).as_uri() for folder in folders}

    def rows(self, table: str, columns: str) -> list[list[Any]]:
        """Return columns of a table."""
        return with_rust(self.tables[table], f"select {columns} from t")

    def strike(self, kind: str, chance: random.Random) -> None:
        """Kill something that only a cluster has."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class OnCluster(OnThisMachine):
    """A master and two workers with folders of their own, and an object store with a REST catalog.

    The executors know Calve only from `calve bundle`.
    """

    strikes: ClassVar[tuple[str, ...]] = (
        "executor",
        "job",
        "worker",
        "point",
        "executor",
        "jvm",
        "worker",
        "point",
        "broker",
        "point",
    )

    def __init__(self, folder: Path) -> None:
        self._folder, self._servers = folder, contextlib.ExitStack()

    def __enter__(self) -> Self:
        folder = self._folder
        self._objects = objects = self._servers.enter_context(ObjectStore(folder / "objects"))
        os.environ.update(objects.environment())
        bundle.write(folder / "calve.tar.gz")
        self._cluster = self._servers.enter_context(SparkCluster(folder / "spark", WORKERS, objects.environment()))
        s3a = jars.resolve("hadoop-aws-3.4.2-apache-sdk-2.54.17", *S3A_JARS)
        conf = {
            "spark.jars": _paths([*own_jars.resolve(own_jars.needed(needs_s3=True)), *_kafka(), *s3a.iterdir()]),
            "spark.driver.extraJavaOptions": QUICK,
            "spark.executor.extraJavaOptions": QUICK,
            "spark.cores.max": "2",
            "spark.executor.cores": "1",
            "spark.executor.memory": "512m",
            **bundle.settings(str(folder / "calve.tar.gz")),
            **_s3a(objects),
            **_catalog(objects.rest_catalog()),
        }
        checkpoint = objects.place("checkpoint").replace("s3://", "s3a://")
        places = {"state": objects.place("state"), "checkpoint": checkpoint}
        self.settings = {"master": self._cluster.master, "conf": conf, **places}
        return self

    def __exit__(self, *_: object) -> None:
        self._servers.close()

    @property
    def tables(self) -> dict[str, str]:
        """The newest metadata of each table."""
        catalog = load_catalog("rest", **self._objects.rest_catalog())
        return {".".join(name): catalog.load_table(name).metadata_location for name in catalog.list_tables("shop")}

    def rows(self, table: str, columns: str) -> list[list[Any]]:
        """Return columns of a table."""
        return with_rust(self.tables[table], f"select {columns} from t", self._objects.s3_file_io())

    def strike(self, kind: str, chance: random.Random) -> None:
        """Kill an executor, or a worker, which is started again."""
        if kind == "executor":
            os.kill(chance.choice(self._cluster.executors()), signal.SIGKILL)
        else:
            self._cluster.kill_worker(chance.randrange(WORKERS))
            self._cluster.clean()


def _catalog(properties: Mapping[str, str]) -> dict[str, str]:
    """Return Spark's settings for the catalog `lake`, and those for a job with little to do."""
    return {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "700m",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        **{f"spark.sql.catalog.lake.{key}": text for key, text in properties.items()},
        **TINY,
    }


def _kafka() -> list[Path]:
    return [*jars.resolve("spark-sql-kafka-4.1.3", *KAFKA_JARS).iterdir()]


def _paths(files: list[Path]) -> str:
    return ",".join(map(str, files))


def _s3a(objects: ObjectStore) -> dict[str, str]:
    store = objects.s3()
    return {
        "spark.hadoop.fs.s3a.endpoint": objects.endpoint,
        "spark.hadoop.fs.s3a.endpoint.region": store["region"],
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.access.key": store["access_key"],
        "spark.hadoop.fs.s3a.secret.key": store["secret_key"],
    }


def _newest(metadata: Path) -> str:
    return f"v{(metadata / 'version-hint.text').read_text().strip()}.metadata.json"
