"""What a user would take instead of Calve: the Kafka Connect sink of Iceberg, Flink's SQL, Spark's `from_json`.

Each runs in a process of its own, in a folder of its own, and reads a topic from its beginning. `flink_home` is a
folder with `lib/`, as the PyPI package `apache-flink-libraries` brings it (310 MB).
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen

from bench import lake
from bench.made_events import COLUMNS
from bench.measure import Figures, measured
from calve.engine.jvm import jars, jdk
from services import jars as services
from services import packages, process
from services.kafka import Kafka

WAIT_SECONDS = 1800.0
KAFKA, ICEBERG, HADOOP, FLINK = "4.3.1", "1.12.0", "3.4.2", "2.1.3"
CONNECT = (
    *(f"org.apache.kafka:connect-{name}:{KAFKA}" for name in ("runtime", "json")),
    *(f"org.apache.iceberg:iceberg-{name}:{ICEBERG}" for name in ("kafka-connect", "parquet", "orc")),
    *(f"org.apache.hadoop:hadoop-client-{name}:{HADOOP}" for name in ("api", "runtime")),
    "org.slf4j:slf4j-simple:2.0.18",
)
SPARK_JARS = (
    jars.ICEBERG,
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.3",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.1.0-preview1",
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.1",
)
FLINK_JARS = (
    "org.apache.iceberg:iceberg-flink-runtime-2.1:1.11.0",
    "org.apache.flink:flink-sql-connector-kafka:4.0.1-2.0",
    *(f"org.apache.hadoop:hadoop-client-{name}:{HADOOP}" for name in ("api", "runtime")),
    "commons-logging:commons-logging:1.3.0",
)
WORKER = """\
bootstrap.servers={address}
listeners=http://127.0.0.1:{port}
plugin.discovery=service_load
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
value.converter.schemas.enable=false
consumer.auto.offset.reset=earliest
offset.storage.file.filename={folder}/offsets
offset.flush.interval.ms=1000
"""
SINK = """\
name={name}
connector.class=org.apache.iceberg.connect.IcebergSinkConnector
tasks.max=2
topics={topic}
iceberg.catalog=ice
iceberg.catalog.type=hadoop
iceberg.catalog.warehouse=file://{folder}/lakehouse
iceberg.tables.auto-create-enabled=true
iceberg.tables.evolve-schema-enabled=true
iceberg.control.topic=control-{name}
iceberg.control.commit.interval-ms={interval}
iceberg.control.commit.timeout-ms=60000
{tables}
"""
ONE_TABLE = "iceberg.tables=bench.events"
# Iceberg's older sink, the default, loses rows of a bounded source: if one writer ends before a checkpoint and the
# other one after it, both leave their files under the same last number, and the later ones replace the earlier ones.
FLINK_SQL = """
SET execution.checkpointing.interval=10s;
SET parallelism.default=2;
SET taskmanager.memory.managed.size=128m;
SET table.exec.sink.upsert-materialize=NONE;
SET table.exec.iceberg.use-v2-sink=true;
CREATE CATALOG lakehouse WITH (
  'type'='iceberg', 'catalog-type'='hadoop', 'warehouse'='file://{folder}/lakehouse'
);
CREATE DATABASE lakehouse.bench;
CREATE TABLE lakehouse.bench.`{table}` ({columns}) WITH ({properties});
CREATE TEMPORARY TABLE events ({columns}) WITH (
  'connector'='kafka', 'topic'='{topic}', 'properties.bootstrap.servers'='{address}', 'format'='{format}',
  'scan.startup.mode'='earliest-offset', 'scan.bounded.mode'='latest-offset'
);
INSERT INTO lakehouse.bench.`{table}` SELECT * FROM events;
"""
OPENS = (
    "java.lang java.net java.io java.nio java.lang.reflect jdk.text java.time java.util java.util.concurrent "
    "java.util.concurrent.atomic java.util.concurrent.locks sun.nio.ch"
)


def spark_from_json(address: str, topic: str, folder: Path, count: int) -> Figures:
    """Append the events to `bench.events` with Spark, which is given the schema."""
    files = ",".join(map(str, sorted(_alone("spark-kafka-4.1", SPARK_JARS).iterdir())))
    command = [sys.executable, "-m", "bench.spark_from_json", files, address, topic, str(folder), COLUMNS]
    return _to_its_end(command, folder, count, {"PYTHONPATH": os.pathsep.join(sys.path)})


def flink_home(download: bool) -> Path | None:
    """Return Flink's folder where it was downloaded before, or is to be."""
    name = f"flink-{FLINK}"
    if not packages.folder_of(name).is_dir():
        if not download:
            return None
        print(f"Downloading Flink {FLINK} (310 MB, once) …", file=sys.stderr, flush=True)
        if not packages.install(name, "--no-deps", f"apache-flink-libraries=={FLINK}"):
            raise SystemExit(f"Flink {FLINK} cannot be downloaded: pip failed")
    return packages.folder_of(name) / "pyflink"


def flink(home: Path, sql: str, folder: Path, count: int) -> Figures:
    """Run statements with Flink in a process of its own, as `FLINK_SQL`."""
    folder.mkdir(parents=True)
    script = folder / "statements.sql"
    script.write_text(sql)
    path = os.pathsep.join([f"{home}/lib/*", f"{_alone(f'flink-{FLINK}-iceberg', FLINK_JARS)}/*"])
    opens = [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in OPENS.split()]
    program = Path(__file__).with_name("FlinkSql.java")
    command = [str(jdk.find().home / "bin" / "java"), "-Xmx3g", *opens, "-cp", path, str(program), str(script)]
    return _to_its_end(command, folder, count)


def connect(broker: Kafka, topic: str, folder: Path, count: int, tables: str = ONE_TABLE) -> Figures:
    """Append the events with the Kafka Connect sink; it ends when all of them are in the tables' snapshots.

    Args:
        broker: The broker.
        topic: The topic.
        folder: Where its settings and the warehouse go.
        count: The number of events.
        tables: The properties of the sink that name its tables.
    """
    command = connect_command(broker, topic, folder, tables)
    before, log = _rows(folder), folder / "connect.log"
    with measured(count) as found, started(command, log) as running:
        deadline = time.monotonic() + WAIT_SECONDS
        while _rows(folder) < before + count:
            if time.monotonic() > deadline:
                raise SystemExit(f"not all events arrived:\n{log.read_text()[-3000:]}")
            check_alive(running, log)
            time.sleep(0.1)
    return found


def connect_command(
    broker: Kafka, topic: str, folder: Path, tables: str = ONE_TABLE, interval_ms: int = 10_000
) -> list[str]:
    """Write the settings of a Kafka Connect sink, make its control topic, and return the command that runs it."""
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{folder.name}-{topic}"
    port = process.free_ports(1)[0]
    worker, sink = folder / f"{name}.worker.properties", folder / f"{name}.sink.properties"
    worker.write_text(WORKER.format(address=broker.address, port=port, folder=folder))
    sink.write_text(SINK.format(name=name, topic=topic, folder=folder, interval=interval_ms, tables=tables))
    broker.create_topic(f"control-{name}")
    lib = services.resolve(f"kafka-connect-{KAFKA}-iceberg-{ICEBERG}", *CONNECT)
    main = "org.apache.kafka.connect.cli.ConnectStandalone"
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    return [str(jdk.find().executable), "-Xmx2g", quiet, "-cp", f"{lib}/*", main, str(worker), str(sink)]


@contextmanager
def started(command: Sequence[str], log: Path, env: dict[str, str] | None = None) -> Iterator[Popen[bytes]]:
    """Start a process; it and its children are gone afterwards, whatever happens."""
    running = process.start(command, log, env)
    try:
        yield running
    finally:
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()


def check_alive(running: Popen[bytes], log: Path) -> None:
    """Raise SystemExit with the end of its log when the Kafka Connect sink has ended or failed."""
    said = log.read_text(errors="replace")
    if running.poll() is not None or " ERROR " in said:
        raise SystemExit(f"the Kafka Connect sink failed:\n{said[-3000:]}")


def _alone(name: str, coordinates: Sequence[str]) -> Path:
    """Return a folder with just these jars."""
    return services.resolve(name, *(f"{each}!" for each in coordinates))


def _rows(folder: Path) -> int:
    files = map(lake.newest, lake.folders(folder / "lakehouse" / "bench"))
    return sum(lake.rows_of(file) for file in files if file)


def _to_its_end(command: Sequence[str], folder: Path, count: int, env: dict[str, str] | None = None) -> Figures:
    log = folder / "output.log"
    with measured(count) as found, started(command, log, env) as running:
        if running.wait(WAIT_SECONDS):
            raise SystemExit(log.read_text(errors="replace")[-3000:])
    return found
