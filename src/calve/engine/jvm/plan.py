"""The JVM of a run: its settings, jars, command and environment. Imports nothing of Spark."""

from __future__ import annotations

import locale
import os
import shlex
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from calve.engine.jvm import archive, jars, jdk, spark_package
from calve.engine.jvm.master import TASK_TRIES, is_local, master_of

__all__ = ["PYTHON", "READING", "JvmPlan", "merged"]

PYTHON = "spark.pyspark.python"
"""Spark's setting for the Python of the workers."""
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
LOOPBACK = "127.0.0.1"
_LOCAL_DIRS = "SPARK_LOCAL_DIRS"
"""The variable with the folders in which Spark stores blocks; it overrides the setting `spark.local.dir`."""
_LISTS = {"spark.driver.extraClassPath": os.pathsep, "spark.driver.extraJavaOptions": " ", "spark.jars": ","}

_PRIVATE = {
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
    "spark.authenticate": "true",  # with a secret that the JVM makes for itself
    "spark.ui.killEnabled": "false",
}
"""Settings of a Spark on this machine: other users of the machine could control it through its ports."""


@dataclass(frozen=True)
class JvmPlan:
    """How the JVM is started.

    Attributes:
        master: Spark's master URL.
        settings: Spark's settings, with the master.
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
        settings = merged(_defaults(master, files), conf) | {"spark.master": master}
        return cls(master, settings, files[: len(jars.ALWAYS)], files[len(jars.ALWAYS) :])

    @property
    def command(self) -> list[str]:
        """The command: Java itself where all that Spark's launcher would add is known."""
        return archive.command(jdk.find(), self.always, self.settings, self._last) or self._launcher()

    def environment(self, folder: Path) -> dict[str, str | None]:
        """Return the variables of the JVM and of Spark's scripts; None: unset.

        Args:
            folder: Where it may store blocks and shuffles.
        """
        chosen = os.environ.get(_LOCAL_DIRS) or self.settings.get("spark.local.dir")
        on_loopback = {"SPARK_LOCAL_IP": LOOPBACK} if is_local(self.master) else {}  # its user interface, too
        return {
            "JAVA_HOME": str(jdk.find().home),
            "SPARK_CONF_DIR": None,
            "SPARK_CONNECT_MODE": "0",
            "SPARK_DIST_CLASSPATH": self._last or None,
            "SPARK_HOME": spark_package.home(),
            "SPARK_LAUNCHER_OPTS": os.environ.get("SPARK_LAUNCHER_OPTS") or _LAUNCHER,
            _LOCAL_DIRS: chosen or str(folder),
            **self.python,
            **on_loopback,
            **_utf8(),
        }

    @property
    def python(self) -> dict[str, str]:
        """The variable with the Python of workers."""
        return {"PYSPARK_PYTHON": self.settings.get(PYTHON, sys.executable), "PYSPARK_DRIVER_PYTHON": sys.executable}

    def _launcher(self) -> list[str]:
        settings = [part for pair in self.settings.items() for part in ("--conf", "=".join(pair))]
        more = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
        return [f"{spark_package.home()}/bin/spark-submit", *settings, *more]

    @property
    def _last(self) -> str:
        """The end of the class path."""
        return os.pathsep.join(filter(None, [os.environ.get("SPARK_DIST_CLASSPATH"), *map(str, self.added)]))


def _utf8() -> dict[str, str]:
    """Return the locale in which Java can open files with any name; none where the user's already is UTF-8."""
    return {} if locale.getencoding().lower().replace("-", "") == "utf8" else {"LC_ALL": "C.UTF-8"}


def merged(ours: dict[str, str], theirs: Mapping[str, str]) -> dict[str, str]:
    """Override our settings by the user's, but join lists: an added jar or JVM option must not remove ours."""
    joined = {key: f"{ours[key]}{_LISTS[key]}{theirs[key]}" for key in theirs if key in _LISTS and key in ours}
    return ours | dict(theirs) | joined


def _defaults(master: str, files: Sequence[Path]) -> dict[str, str]:
    log = Path(__file__).with_name("log4j2.properties").as_uri()
    always = files[: len(jars.ALWAYS)]
    tuning = f"{_TUNING} {archive.options(jdk.find(), always)}".rstrip()
    settings = {
        "spark.app.name": "calve",
        "spark.driver.extraClassPath": os.pathsep.join(map(str, always)),
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={log} {tuning}",
        "spark.driver.memory": "2g" if _memory_bytes() >= 8 << 30 else "1g",
        "spark.speculation": "false",  # two attempts of one task would write the same files twice
        "spark.task.maxFailures": str(TASK_TRIES),
        "spark.scheduler.mode": "FAIR",  # pipelines take turns; each has a pool of its own
        "spark.python.worker.reuse": "true",
        "spark.python.daemon.module": "calve.engine.workers.daemon",
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
    if is_local(master):
        return settings | _PRIVATE | {"spark.sql.shuffle.partitions": "8"}
    return settings | {"spark.jars": ",".join(map(str, files))}


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
