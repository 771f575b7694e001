"""A master that is none, or that is away, is told before Spark starts."""

from __future__ import annotations

import socket

import pytest

from calve.engine.jvm.master import check_master
from calve.errors import EngineError


@pytest.mark.parametrize(
    "master",
    [
        "local",
        "local[*]",
        "local[4]",
        "local[4,2]",
        "local[*, 3]",
        "local-cluster[2, 1, 1024]",
        "yarn",
        "k8s://https://host:443",
    ],
)
def test_what_spark_knows_as_a_master_is_left_to_spark(master: str) -> None:
    check_master(master)


@pytest.mark.parametrize(
    "master", ["", "loacl[4]", "local[x]", "spark://host", "mesos://host:1", "spark://a:1/b", "local[0]", "local[2,]"]
)
def test_what_is_no_master_is_told_with_those_there_are(master: str) -> None:
    with pytest.raises(EngineError, match="is not a Spark master") as refused:
        check_master(master)
    assert "spark://host:7077" in refused.value.hint


def test_one_of_several_masters_is_enough_and_none_is_named_with_the_reasons() -> None:
    with socket.create_server(("127.0.0.1", 0)) as master:
        port = master.getsockname()[1]
        check_master(f"spark://127.0.0.1:1,127.0.0.1:{port}")
    with pytest.raises(EngineError, match=r"No Spark master answers at .*127\.0\.0\.1:1: Connection refused") as away:
        check_master("spark://127.0.0.1:1")
    assert "--master" in away.value.hint
