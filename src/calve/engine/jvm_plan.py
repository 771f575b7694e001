"""The JVM of a run: its settings, jars, command and environment. Imports nothing of Spark."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from calve.engine import archive, jars, java, spark_package
from calve.engine.forks import TASK_TRIES, master_of

__all__ = ["READING", "JvmPlan", "merged"]

READING = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=4",
    "spark.sql.caseSensitive": "true",
    "spark.sql.shuffle.partitions": "64",
}
"""Settings to read tables with Spark SQL: its JVM processes rows, so the better compiler pays; columns may differ only
in case; small shuffles stay cheap."""
_TUNING = "-XX:+UseParallelGC -XX:TieredStopAtLevel=1"
"""The driver's JVM plans and commits but processes no rows: the better compiler would cost more than it saves."""
_LAUNCHER = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""Options of the JVM that only prints the command of the driver's JVM."""
_LISTS = {"spark.driver.extraClassPath": os.pathsep, "spark.driver.extraJavaOptions": " ", "spark.jars": ","}


@dataclass(frozen=True)
class JvmPlan:
    """How the JVM is started.

    Attributes:
        master: Spark's master URL.
        settings: Spark's settings.
        always: The jars of every run, which are first on the class path.
        added: The jars for the end of the class path; the class-data archive fits what begins with its own class path.
    """

    master: str
    settings: dict[str, str]
    always: list[Path]
    added: list[Path]

    @classmethod
    def of(cls, master: str | None, conf: Mapping[str, str], needs_s3: bool) -> JvmPlan:
        """Find Java and the jars; fetch jars that are missing.

        Args:
            master: Spark's master URL; None: `local[*]`.
            conf: The user's settings; they override Calve's.
            needs_s3: Whether a table or a catalog lives on S3.

        Raises:
            EngineError: Java or a jar is missing.
        """
        master = master_of(master, conf)
        files = jars.resolve(jars.needed(needs_s3))
        settings = merged(_defaults(master, files), conf)
        return cls(master, settings, files[: len(jars.ALWAYS)], files[len(jars.ALWAYS) :])

    @property
    def command(self) -> list[str] | None:
        """The command for a local master; None: Spark's launcher is needed."""
        return archive.command(java.find(), self.always, self.settings, self._last)

    @property
    def environment(self) -> dict[str, str | None]:
        """The variables of Spark's scripts; None: unset."""
        return {
            "JAVA_HOME": str(java.find().home),
            "SPARK_CONF_DIR": None,
            "SPARK_DIST_CLASSPATH": self._last or None,
            "SPARK_HOME": spark_package.home(),
            "SPARK_LAUNCHER_OPTS": os.environ.get("SPARK_LAUNCHER_OPTS") or _LAUNCHER,
        }

    @property
    def of_workers(self) -> dict[str, str]:
        """The variables of workers, which use this interpreter."""
        return {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}

    @property
    def _last(self) -> str:
        """The end of the class path."""
        return os.pathsep.join(filter(None, [os.environ.get("SPARK_DIST_CLASSPATH"), *map(str, self.added)]))


def merged(ours: dict[str, str], theirs: Mapping[str, str]) -> dict[str, str]:
    """Override our settings by the user's, but join lists: an added jar or JVM option must not remove ours."""
    joined = {key: f"{ours[key]}{_LISTS[key]}{theirs[key]}" for key in theirs if key in _LISTS and key in ours}
    return ours | dict(theirs) | joined


def _defaults(master: str, files: Sequence[Path]) -> dict[str, str]:
    log = Path(__file__).with_name("log4j2.properties").as_uri()
    always = files[: len(jars.ALWAYS)]
    tuning = f"{_TUNING} {archive.options(java.find(), always)}".rstrip()
    settings = {
        "spark.app.name": "calve",
        "spark.driver.extraClassPath": os.pathsep.join(map(str, always)),
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={log} {tuning}",
        "spark.driver.memory": "2g" if _memory_bytes() >= 8 << 30 else "1g",
        "spark.speculation": "false",  # two attempts of one task would write the same files twice
        "spark.task.maxFailures": str(TASK_TRIES),
        "spark.python.worker.reuse": "true",
        "spark.python.daemon.module": "calve.engine.daemon",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "131072",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.variable.substitute": "false",  # columns may be named ${…}
        "spark.sql.catalogImplementation": "in-memory",
        "spark.hadoop.hive.metastore.client.socket.timeout": "20s",  # of each call; by default ten minutes
        "spark.sql.warehouse.dir": f"{tempfile.gettempdir()}/calve-spark-warehouse",  # a name only, never created
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.ui.retainedJobs": "20",  # Spark keeps them in memory with its UI off, too
        "spark.ui.retainedStages": "20",
        "spark.ui.retainedTasks": "1000",
        "spark.sql.ui.retainedExecutions": "20",
    }
    if master.startswith("local"):
        loopback = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        return settings | loopback | {"spark.sql.shuffle.partitions": "8"}
    return settings | {"spark.jars": ",".join(map(str, files))}


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
