"""The changes of a MERGE of 1 % in a table of 2 million rows: Calve against Spark's `create_changelog_view`.

    make bench-changes BENCH="--events 2000000 --rounds 5"

Both give INSERT, DELETE and updates as pairs, by `id`, and the rows are read to the end and thrown away. They take
turns in one session, each a few times; medians of wall time, and of the JVM's CPU time, which a busy machine does not
stretch. Merge-on-read is Calve alone: the view refuses snapshots with delete files.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from bench.measure import Figures, Results, parser, ratio, take_turns
from bench.report import Report
from calve.catalog.catalog import Catalog, embedded
from calve.changes.plan import Planner
from calve.changes.table_changes import TableChanges
from calve.engine import session
from calve.engine.jvm.plan import READING

FILES = 8
KINDS = [("copy-on-write", 2), ("copy-on-write", 3), ("merge-on-read", 2), ("merge-on-read", 3)]
ROW = [
    "id",
    "id % 1000 AS customer",
    "CAST(rand(1) * 100000 AS DECIMAL(10, 2)) AS amount",
    "rand(2) AS score",
    "md5(CAST(id AS STRING)) AS note",
    "timestamp_seconds(1700000000 + id) AS at",
    "CAST(id % 200 AS STRING) AS country",
    "id % 7 = 0 AS paid",
]
SPARK = {
    **READING,
    "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.lake.cache-enabled": "false",
}


def made(spark: SparkSession, kind: tuple[str, int], rows: int, files: int) -> tuple[str, int, int]:
    """Make a table and merge 1 % of its rows; give its name, and the snapshots before and after."""
    mode, version = kind
    name = f"db.{mode.replace('-', '_')}_{version}"
    properties = f"'format-version'='{version}', 'write.merge.mode'='{mode}', 'write.distribution-mode'='none'"
    spark.range(0, rows, 1, files).selectExpr(*ROW).createOrReplaceTempView("events")
    spark.sql(f"CREATE TABLE lake.{name} USING iceberg TBLPROPERTIES ({properties}) AS SELECT * FROM events")
    spark.sql(
        f"MERGE INTO lake.{name} t USING (SELECT id * 100 + id % 100 AS id FROM range({rows // 100})) u ON t.id = u.id "
        "WHEN MATCHED AND t.customer % 10 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET t.score = -1.0"
    )
    spark.sql("DROP VIEW events")
    found = spark.sql(f"SELECT snapshot_id FROM lake.{name}.snapshots ORDER BY committed_at").collect()
    return name, found[0][0], found[-1][0]


def with_calve(told: TableChanges, after: int) -> None:
    """Read the changes of the last snapshot."""
    (step,) = told.steps(after)
    with told.of(step) as changes:
        assert changes is not None
        changes.write.format("noop").mode("overwrite").save()


def with_view(spark: SparkSession, name: str, after: int, until: int) -> None:
    """Read the same from Spark's view."""
    spark.sql(
        f"CALL lake.system.create_changelog_view(table => '{name}', changelog_view => 'seen', identifier_columns => "
        f"array('id'), options => map('start-snapshot-id', '{after}', 'end-snapshot-id', '{until}'))"
    )
    spark.table("seen").write.format("noop").mode("overwrite").save()


def cost(spark: SparkSession, work: Callable[[], None], number: int) -> Figures:
    """Do the work; return the seconds that passed, and those of CPU that the JVM took."""
    cpu, start = cpu_seconds(spark), time.perf_counter()
    work()
    return {"seconds": time.perf_counter() - start, "CPU s": cpu_seconds(spark) - cpu}


def cpu_seconds(spark: SparkSession) -> float:
    """What the JVM took of CPU until now (Linux)."""
    fields = Path(f"/proc/{spark.sparkContext._gateway.proc.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(spark: SparkSession, catalog: Catalog, kind: tuple[str, int], rows: int, rounds: int) -> Results:
    """Measure one kind of table; the first round warms up and does not count."""
    name, after, until = made(spark, kind, rows, FILES)
    told = TableChanges(Planner(session.start()), name, partial(catalog.load_java, name), key=("id",))
    work = {"calve": partial(with_calve, told, after), "view": partial(with_view, spark, name, after, until)}
    if kind[0] == "merge-on-read":
        try:
            work.pop("view")()
        except (PySparkException, Py4JJavaError):
            pass  # as it must: should it take delete files one day, the report says so
        else:
            raise SystemExit("create_changelog_view takes delete files now: measure it")
    runs = {f"{one}, {kind[0]}, version {kind[1]}": partial(cost, spark, each) for one, each in work.items()}
    return {one: found[1:] for one, found in take_turns(runs, rounds + 1).items()}


def main() -> None:
    options = parser(__doc__, events=2_000_000, rounds=5)
    options.add_argument("--master", default="local[2]")
    chosen = options.parse_args()
    results: Results = {}
    with tempfile.TemporaryDirectory(prefix="calve-bench-") as folder:
        properties = embedded(Path(folder)) | {"name": "lake"}
        settings = {f"spark.sql.catalog.lake.{key}": value for key, value in properties.items() if key != "name"}
        engine = session.start(chosen.master, SPARK | settings, preload=())
        try:
            engine.session.sql("CREATE NAMESPACE lake.db")
            for kind in KINDS:
                results |= measure(engine.session, Catalog(engine, properties), kind, chosen.events, chosen.rounds)
        finally:
            session.stop(engine)
    report = Report("changes", "The changes of a snapshot")
    for mode, version in KINDS:
        ours, theirs = (f"{who}, {mode}, version {version}" for who in ("calve", "view"))
        if theirs in results:
            report.target(
                f"seconds of Calve to the view's, {mode}, version {version}", ratio(results, "seconds", ours, theirs)
            )
    report.bars(results, "seconds")


if __name__ == "__main__":
    main()
