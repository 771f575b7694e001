"""Runs every case of `connector_cases.py` with the real sink, in one Kafka Connect process, and keeps its rows.

.venv/bin/python tests/migrate/record_connector.py
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

from bench.peers import CONNECT, ICEBERG, KAFKA, WORKER

from calve.engine.jvm import jdk
from migrate.connector_cases import CASES, ROWS, config, produce, rows
from services import jars, process
from services.kafka import Kafka

DEBEZIUM = "3.6.1.Final"
TRANSFORMS = (
    *CONNECT,
    f"org.apache.kafka:connect-transforms:{KAFKA}",
    f"org.apache.iceberg:iceberg-kafka-connect-transforms:{ICEBERG}",
    *(
        f"io.debezium:debezium-{name}:{DEBEZIUM}!"
        for name in ("api", "connector-common", "connect-plugins", "util", "config", "openlineage-api")
    ),
)
QUIET_SECONDS, MOST_SECONDS = 30, 300


def record(folder: Path) -> dict[str, object]:
    """Return what the sink wrote: the name of a table is unique over all cases."""
    warehouse = folder / "lakehouse"
    with Kafka(folder / "kafka") as broker:
        produce(broker)
        [port] = process.free_ports(1)
        worker = folder / "worker.properties"
        worker.write_text(WORKER.format(address=broker.address, port=port, folder=folder))
        connectors = []
        for name in CASES:
            broker.create_topic(f"control-{name}")
            path = folder / f"{name}.properties"
            lines = {"name": name, "tasks.max": "1", **config(name, warehouse)}
            path.write_text("".join(f"{key}={_escaped(value)}\n" for key, value in lines.items()))
            connectors.append(str(path))
        lib = jars.resolve(f"kafka-connect-{KAFKA}-iceberg-{ICEBERG}-transforms", *TRANSFORMS)
        main = "org.apache.kafka.connect.cli.ConnectStandalone"
        quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
        command = [str(jdk.find().executable), "-Xmx1500m", quiet, "-cp", f"{lib}/*", main, str(worker), *connectors]
        running = process.start(command, folder / "connect.log")
        try:
            return _when_quiet(warehouse, folder / "connect.log")
        finally:
            process.stop(running, kill=True)


def _when_quiet(warehouse: Path, log: Path) -> dict[str, object]:
    """Return the rows when nothing was added for some time."""
    began, since, before = time.monotonic(), time.monotonic(), {}
    while time.monotonic() < min(since + QUIET_SECONDS, began + MOST_SECONDS) or not before:
        time.sleep(1)
        if time.monotonic() > began + MOST_SECONDS:
            break
        if (now := rows(warehouse)) != before:
            before, since = now, time.monotonic()
            print(f"{time.monotonic() - began:.0f} s: {len(now)} tables, {sum(map(len, now.values()))} rows")
    said = log.read_text(errors="replace").splitlines()
    print(
        *[line[:300] for line in said if " ERROR " in line or line.startswith(("Caused by", "java.", "org.apache"))][
            :40
        ],
        sep="\n",
    )
    return before


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        recorded = record(Path(folder))
    ROWS.write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n")
    print(f"{ROWS}: {len(recorded)} tables")
