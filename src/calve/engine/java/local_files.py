"""Hadoop's local file system in the driver's JVM, without a process for each file (`LocalFiles.java`)."""

from __future__ import annotations

from typing import Any

from calve.engine.java.compiled import java_class

__all__ = ["spare_processes"]


def spare_processes(jvm: Any, configuration: Any) -> None:
    """Let Java write local files without starting `chmod` for each file and checksum.

    A commit writes three files, so it would start six processes. May be repeated safely.

    Args:
        jvm: The JVM of Spark's driver.
        configuration: Hadoop's configuration there.
    """
    java_class(jvm, __name__, "LocalFiles").newInstance().install(configuration)
