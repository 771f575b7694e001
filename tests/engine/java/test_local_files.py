"""Files that Java writes into local folders: as Hadoop writes them, without a process for each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from calve.engine import session
from calve.engine.java.local_files import spare_processes

pytestmark = pytest.mark.spark
_FAULTS_OF_CHILDREN = 8
"""In `/proc/<pid>/stat` behind the name: the page faults of processes that it started and waited for."""


@pytest.fixture
def java(spark: SparkSession) -> Iterator[Any]:
    yield session.start().jvm.org.apache.hadoop
    spare_processes(session.start().jvm, session.start().hadoop)


def write(java: Any, path: Path, configuration: Any) -> None:
    stream = java.fs.FileSystem.getLocal(configuration).create(java.fs.Path(str(path)), False)
    stream.write(bytearray(b"calve"))
    stream.close()


@pytest.mark.parametrize("umask", ["022", "077"])
def test_a_local_file_has_its_bytes_the_permissions_of_the_umask_and_no_file_beside_it(
    spark: SparkSession, java: Any, tmp_path: Path, umask: str
) -> None:
    configuration = java.conf.Configuration(session.start().hadoop)
    configuration.set("fs.permissions.umask-mode", umask)
    spare_processes(session.start().jvm, configuration)
    made = tmp_path / "new" / "file"
    write(java, made, configuration)
    assert made.read_bytes() == b"calve"
    assert made.stat().st_mode & 0o777 == 0o666 & ~int(umask, 8)
    assert list(made.parent.iterdir()) == [made]


def test_a_file_is_read_with_the_checksums_that_hadoop_wrote_beside_it_or_without_any(
    spark: SparkSession, java: Any, tmp_path: Path
) -> None:
    file, configuration = tmp_path / "file", session.start().hadoop
    spare_processes(session.start().jvm, configuration)
    files, path = java.fs.FileSystem.getLocal(configuration), java.fs.Path(str(file))
    write(java, file, configuration)
    assert files.open(path).readAllBytes() == b"calve"
    files.setWriteChecksum(True)
    write(java, tmp_path / "other", configuration)
    files.setWriteChecksum(False)
    (tmp_path / "other").write_bytes(b"cable")
    with pytest.raises(Py4JJavaError, match="ChecksumException"):
        files.open(java.fs.Path(str(tmp_path / "other"))).readAllBytes()


def test_no_process_is_started_for_a_local_file(spark: SparkSession, java: Any, tmp_path: Path) -> None:
    configuration = session.start().hadoop
    spare_processes(session.start().jvm, configuration)
    stat = Path(f"/proc/{session.start().jvm.java.lang.ProcessHandle.current().pid()}/stat")
    before = stat.read_text().rpartition(")")[2].split()[_FAULTS_OF_CHILDREN]
    write(java, tmp_path / "file", configuration)
    assert stat.read_text().rpartition(")")[2].split()[_FAULTS_OF_CHILDREN] == before
