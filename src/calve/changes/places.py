"""Refuses files that a table lists and that lie where no table may choose (`Places.java`); runs on the driver.

Who writes a table's metadata can list any path: of this machine, of another store, of another table. Reading it would
give away what only this machine may read, and expiring its snapshot would delete it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from calve.engine.engine import Engine
from calve.engine.java.compiled import java_class
from calve.errors import UnsupportedError

__all__ = ["refuse_files", "refuse_tasks"]


def refuse_tasks(spark: Engine, identifier: str, java_table: Any, tasks: Iterable[Any]) -> None:
    """Check lists of Java's scan tasks before they are read.

    Raises:
        UnsupportedError: One has a file of this machine outside of the table's folders, or of another store.
    """
    places = _places(spark, java_table, only_own=False)
    for part in tasks:
        _refuse(identifier, places.ofTasks(part), "Calve does not read it")


def refuse_files(spark: Engine, identifier: str, java_table: Any, snapshots: list[Any], deletes: bool) -> None:
    """Check all files that Java's snapshots list; manifests that were checked before are not read again.

    Args:
        spark: The session.
        identifier: The table's name.
        java_table: The table.
        snapshots: The snapshots.
        deletes: Whether files are deleted, so that all must be in the table's own folders.

    Raises:
        UnsupportedError: A file is where it may not be.
    """
    location = _places(spark, java_table, only_own=deletes).ofSnapshots(snapshots)
    _refuse(identifier, location, "Calve does not delete it" if deletes else "Calve does not read it")


def _places(spark: Engine, java_table: Any, only_own: bool) -> Any:
    constructor = java_class(spark.jvm, __name__, "Places").getConstructors()[0]
    return constructor.newInstance(spark.object_array(java_table, only_own))


def _refuse(identifier: str, location: str | None, what: str) -> None:
    if location is None:
        return
    raise UnsupportedError(
        f"The table {identifier} lists a file outside of its folders: {location}. {what}",
        step="read the table",
        target=identifier,
        hint="Find out who wrote it. If the file belongs to the table, rewrite the table into its folder with Spark",
    )
