"""Nobody else on the machine controls a Spark of this machine: its ports are on loopback and ask for a secret."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from calve.engine import session
from calve.engine.engine import Engine
from calve.engine.pyspark_private import jvm_process

pytestmark = pytest.mark.spark
LISTENS = "0A"
LOOPBACK = ("0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000")
WITH_PAGES = """
from calve.engine import session
from calve.engine.pyspark_private import jvm_process
from engine.test_privacy import listening
engine = session.start("local[1]", {"spark.ui.enabled": "true", "spark.ui.port": "0"}, preload=())
port = int(engine.context.uiWebUrl.rpartition(":")[2])
print(listening(jvm_process().pid)[port], engine.context.getConf().get("spark.ui.killEnabled"))
session.stop(engine)
"""


@pytest.fixture
def engine(spark: SparkSession) -> Engine:
    return session.start()


def listening(process: int) -> dict[int, bool]:
    """Return the ports on which a process listens, and whether each is on loopback."""
    links = [str(file.readlink()) for file in Path(f"/proc/{process}/fd").iterdir() if file.is_symlink()]
    sockets = {link.removeprefix("socket:[").removesuffix("]") for link in links if link.startswith("socket:")}
    lines = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()]
    found = [fields[1].split(":") for fields in lines if fields[3] == LISTENS and fields[9] in sockets]
    return {int(port, 16): address in LOOPBACK for address, port in found}


def reached(engine: Engine, port: int, endpoint: str) -> bool:
    """Return whether a client without a secret reaches an endpoint of Spark."""
    spark = engine.jvm.org.apache.spark
    client = plain_env(engine, True)
    try:
        client.setupEndpointRef(spark.rpc.RpcAddress("127.0.0.1", port), endpoint)
    except Py4JJavaError:
        return False
    finally:
        client.shutdown()
    return True


def plain_env(engine: Engine, is_client: bool) -> Any:
    """Return what sends and receives Spark's messages, without authentication."""
    spark, none = engine.jvm.org.apache.spark, engine.jvm.scala.Option.empty()
    conf = spark.SparkConf(False)
    file = getattr(getattr(spark.internal.config, "package$"), "MODULE$").AUTH_SECRET_FILE()
    return spark.rpc.RpcEnv.create("other", "127.0.0.1", 0, conf, spark.SecurityManager(conf, none, file), is_client)


def test_a_client_without_the_secret_does_not_reach_the_scheduler(engine: Engine) -> None:
    port = int(engine.context.getConf().get("spark.driver.port"))
    assert not reached(engine, port, "LocalSchedulerBackendEndpoint")
    assert not reached(engine, port, "endpoint-verifier")
    open_to_all = plain_env(engine, False)
    try:
        assert reached(engine, open_to_all.address().port(), "endpoint-verifier"), "it reaches one that asks for none"
    finally:
        open_to_all.shutdown()


def test_all_ports_are_on_loopback(engine: Engine) -> None:
    process = jvm_process()
    assert process is not None
    ports = listening(process.pid)
    assert int(engine.context.getConf().get("spark.driver.port")) in ports
    assert all(ports.values())


def test_the_gateway_to_java_runs_nothing_without_its_token(engine: Engine) -> None:
    gateway = SparkContext._gateway
    assert gateway is not None
    parameters = gateway.gateway_parameters
    run = b"c\nz:java.lang.System\nlineSeparator\ne\n"
    for begin, is_let_in in ((b"", False), (b"A\nwrong\n", False), (f"A\n{parameters.auth_token}\n".encode(), True)):
        with socket.create_connection(("127.0.0.1", parameters.port), 60) as client:
            client.sendall(begin + run)
            answer = client.recv(1 << 12)
            while is_let_in and answer.count(b"\n") < 2:
                answer += client.recv(1 << 12)
        assert (b"!ys" in answer) is is_let_in, "a text comes back"


def test_spark_stores_in_a_folder_that_only_its_user_can_read(engine: Engine) -> None:
    folder = Path(engine.jvm.org.apache.spark.util.Utils.getLocalDir(engine.context._jsc.sc().conf()))
    private = next(one for one in folder.parents if one.name.startswith("calve-spark-"))
    assert private.stat().st_mode & 0o777 == 0o700


@pytest.mark.crash
def test_sparks_pages_are_on_loopback_and_end_no_jobs() -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    ran = subprocess.run([sys.executable, "-c", WITH_PAGES], env=environment, capture_output=True, text=True)
    assert (ran.stdout, ran.returncode) == ("True false\n", 0), ran.stderr
