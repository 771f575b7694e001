"""The same changes with Flink: its SQL, a topic of Debezium envelopes → an upsert table of Iceberg.

Used by row_changes.py. A Flink home is a folder with `lib/`: a distribution, or `pyflink` of the PyPI package
`apache-flink`.
"""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Any

from calve.engine import jars, java
from own_cpu import OwnCpu

COORDINATES = (
    "org.apache.iceberg:iceberg-flink-runtime-2.1:1.11.0",
    "org.apache.flink:flink-sql-connector-kafka:4.0.1-2.0",
    "org.apache.hadoop:hadoop-client-api:3.4.2",
    "org.apache.hadoop:hadoop-client-runtime:3.4.2",
    "commons-logging:commons-logging:1.3.0",
)
PACKAGES = "lang net io nio lang.reflect text time util util.concurrent util.concurrent.atomic util.concurrent.locks"
COLUMNS = "id BIGINT, n BIGINT, name STRING, amount DOUBLE, `at` STRING, note STRING, PRIMARY KEY (id) NOT ENFORCED"
SQL = """
SET execution.checkpointing.interval=10s;
SET parallelism.default=2;
SET taskmanager.memory.managed.size=128m;
SET table.exec.sink.upsert-materialize=NONE;
CREATE CATALOG lakehouse WITH (
  'type'='iceberg', 'catalog-type'='hadoop', 'warehouse'='file://{folder}/lakehouse'
);
CREATE DATABASE lakehouse.bench;
CREATE TABLE lakehouse.bench.`rows` ({columns}) WITH ('format-version'='2', 'write.upsert.enabled'='true');
CREATE TEMPORARY TABLE changes ({columns}) WITH (
  'connector'='kafka', 'topic'='{topic}', 'properties.bootstrap.servers'='{address}', 'format'='debezium-json',
  'scan.startup.mode'='earliest-offset', 'scan.bounded.mode'='latest-offset'
);
INSERT INTO lakehouse.bench.`rows` SELECT * FROM changes;
"""


def flink_run(address: str, topic: str, home: Path, folder: Path, cpu: OwnCpu) -> dict[str, Any]:
    """Apply a topic with Flink, in a process of its own; give seconds and CPU, start-up included."""
    folder.mkdir(parents=True)
    script = folder / "changes.sql"
    script.write_text(SQL.format(folder=folder, columns=COLUMNS, topic=topic, address=address))
    path = os.pathsep.join([f"{home}/lib/*", *map(str, jars.resolve(list(COORDINATES)))])
    opens = [f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in PACKAGES.split()]
    opens.append("--add-opens=java.base/sun.nio.ch=ALL-UNNAMED")
    program = Path(__file__).with_name("FlinkUpsert.java")
    command = [str(java.find().home / "bin" / "java"), "-Xmx3g", *opens, "-cp", path, str(program), str(script)]
    used, started = cpu.seconds(), time.monotonic()
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=folder)
    if done.returncode:
        raise SystemExit((done.stdout + done.stderr)[-3000:])
    return {"seconds": time.monotonic() - started, "cpu": cpu.seconds() - used}
