"""Files that Java writes into local folders: as Hadoop writes them, without a process for each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from calve.engine.local_files import spare_processes
from calve.engine.pyspark_private import hadoop_configuration, jvm_of

pytestmark = pytest.mark.spark
_FAULTS_OF_CHILDREN = 8
"""In `/proc/<pid>/stat` behind the name: the page faults of processes that it started and waited for."""


@pytest.fixture
def java(spark: SparkSession) -> Iterator[Any]:
    yield jvm_of(spark).org.apache.hadoop
    spare_processes(jvm_of(spark), hadoop_configuration(spark))


def write(java: Any, path: Path, configuration: Any) -> None:
    stream = java.fs.FileSystem.getLocal(configuration).create(java.fs.Path(str(path)), False)
    stream.write(bytearray(b"calve"))
    stream.close()


@pytest.mark.parametrize("umask", ["022", "077"])
def test_a_local_file_has_its_bytes_its_checksums_and_the_permissions_of_the_umask(
    spark: SparkSession, java: Any, tmp_path: Path, umask: str
) -> None:
    configuration = java.conf.Configuration(hadoop_configuration(spark))
    configuration.set("fs.permissions.umask-mode", umask)
    spare_processes(jvm_of(spark), configuration)
    made = tmp_path / "new" / "file"
    write(java, made, configuration)
    assert made.read_bytes() == b"calve"
    for file in (made, made.with_name(".file.crc")):
        assert file.stat().st_mode & 0o777 == 0o666 & ~int(umask, 8)


def test_no_process_is_started_for_a_local_file(spark: SparkSession, java: Any, tmp_path: Path) -> None:
    configuration = hadoop_configuration(spark)
    spare_processes(jvm_of(spark), configuration)
    stat = Path(f"/proc/{jvm_of(spark).java.lang.ProcessHandle.current().pid()}/stat")
    before = stat.read_text().rpartition(")")[2].split()[_FAULTS_OF_CHILDREN]
    write(java, tmp_path / "file", configuration)
    assert stat.read_text().rpartition(")")[2].split()[_FAULTS_OF_CHILDREN] == before
