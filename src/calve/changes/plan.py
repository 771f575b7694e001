"""Asks the JVM for the files that contain the changes of a snapshot, and reads exactly these.

A loop over the files through py4j is 16 times slower than in the JVM (measured: 10 s for 40,000 files). So the loops
are Java (`Planner.java`), compiled by Spark's Janino.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from calve.changes.places import refuse_tasks
from calve.changes.snapshot import History, Snapshot, SnapshotStep
from calve.changes.spark_columns import SparkColumns, spark_columns
from calve.engine.engine import Engine
from calve.engine.java.compiled import java_class
from calve.engine.java.errors import caused_by, java_errors
from calve.errors import NoTargetError, PositionLostError, UnsupportedError

__all__ = ["ADDED", "ALL", "DELETED", "REMOVED", "RESTORED", "Plan", "Planner", "UnreadFileError", "reading"]

ADDED, REMOVED, DELETED, RESTORED = SETS = ("ADDED", "REMOVED", "DELETED", "RESTORED")
"""Rows of new files; of removed files; rows of kept files that are now deleted; those that are no longer deleted."""
ALL = (1 << 63) - 1
"""More bytes than any table has."""
_STEP = "changes"
_GONE = ("org.apache.iceberg.exceptions.NotFoundException", "java.io.FileNotFoundException")
_UNSUPPORTED = "java.lang.UnsupportedOperationException"


class UnreadFileError(UnsupportedError):
    """The reader of a table cannot read one of its files; Iceberg's generic reader may."""


class Planner:
    """The compiled planner of a session. Compiling takes a second the first time, later 0.3.

    Runs on the driver; may be shared by threads.
    """

    def __init__(self, spark: Engine) -> None:
        self.spark = spark
        self._jvm: Any = spark.jvm
        self._class: Any = java_class(self._jvm, __name__, "Planner")
        self._by_iceberg: set[str] = set()

    def read_by_iceberg(self, identifier: str) -> bool:
        """Let Iceberg's generic reader, which is slower, read a table from now on; False: it does already."""
        is_new = identifier not in self._by_iceberg
        self._by_iceberg.add(identifier)
        return is_new

    def history(self, identifier: str, java_table: Any, branch: str = "main") -> History:
        """Return the snapshots of a branch, from a table's handle. A table without snapshots has an empty `main`.

        Raises:
            NoTargetError: There is no such branch.
        """
        with java_errors(_STEP, identifier):
            head = java_table.refs().get(branch)
            if branch != "main" and (head is None or not head.isBranch()):
                branches = ", ".join(sorted(key for key, ref in java_table.refs().items() if ref.isBranch()))
                raise NoTargetError(
                    f"The table {identifier} has no branch {branch}",
                    step=_STEP,
                    target=identifier,
                    hint=f"It has: {branches or 'none yet'}",
                )
            nothing = self._new(java_table)
            rows = json.loads(nothing.history(java_table, None if head is None else head.snapshotId()))
            uuid_ = str(java_table.uuid())
        line = [Snapshot(*row[:6]) for row in reversed(rows) if row[6]]
        others = {row[0]: Snapshot(*row[:6]) for row in rows if not row[6]}
        return History(identifier, uuid_, branch, line, others)

    def schema_json(self, identifier: str, java_table: Any) -> str:
        """Return a table's schema as JSON (Iceberg specification, appendix C)."""
        with java_errors(_STEP, identifier):
            return str(self._jvm.org.apache.iceberg.SchemaParser.toJson(java_table.schema()))

    def schema(self, identifier: str, java_table: Any) -> StructType:
        """Return a table's columns with the types that they have in Spark.

        Raises:
            UnsupportedError: One of them has none.
        """
        columns = spark_columns(self.schema_json(identifier, java_table))
        return StructType.fromJson(json.loads(self._types(identifier, columns)))

    def _types(self, identifier: str, columns: SparkColumns) -> str:
        """Return the types of columns as JSON of Spark."""
        iceberg = self._jvm.org.apache.iceberg
        with reading(identifier):
            return str(iceberg.spark.SparkSchemaUtil.convert(iceberg.SchemaParser.fromJson(columns.schema_json)).json())

    def plan(self, identifier: str, java_table: Any, step: SnapshotStep, first: int = 0, max_bytes: int = ALL) -> Plan:
        """Find and stage the files of a step. The caller closes the plan after it has read the rows.

        Args:
            identifier: The table's name.
            java_table: Its handle.
            step: The step.
            first: For a full snapshot: the number of files that earlier plans have read.
            max_bytes: For a full snapshot: the approximate size of the files of this plan, at least one.

        Raises:
            PositionLostError: The snapshot, its parent, or files of them no longer exist.
            UnsupportedError: A file lies where the table may not choose, or a column has no type in Spark.
        """
        snapshot = step.snapshot
        with reading(identifier):
            java = self._new(java_table)
            if step.is_full:
                java.planWhole(snapshot.snapshot_id, first, max_bytes)
            elif step.base is not None:
                java.planBetween(step.base, snapshot.snapshot_id)
            else:
                java.plan(snapshot.snapshot_id, self._parent(identifier, java_table, java, snapshot))
            refuse_tasks(self.spark, identifier, java_table, [java.staged(name) for name in SETS])
        columns = spark_columns(self.schema_json(identifier, java_table))
        is_readable = columns.is_readable and identifier not in self._by_iceberg
        types = "" if is_readable else self._types(identifier, columns)
        return Plan(self.spark, identifier, java, java_table, types)

    def _parent(self, identifier: str, java_table: Any, java: Any, snapshot: Snapshot) -> int | None:
        """Return the parent's id; None if it has expired and the snapshot only adds files, which needs no parent."""
        parent = snapshot.parent_id
        if parent is None or java_table.snapshot(parent) is not None:
            return parent
        if java.onlyAdds(snapshot.snapshot_id):
            return None
        raise PositionLostError(
            f"The changes of the snapshot {snapshot.snapshot_id} of {identifier} are no longer known: its parent "
            f"{parent} has expired",
            step=_STEP,
            target=identifier,
            hint="Start without a position to read all retained snapshots; expire snapshots only after they are read",
        )

    def _new(self, java_table: Any) -> Any:
        arguments = self.spark.object_array(java_table, uuid.uuid4().hex)
        return self._class.getConstructors()[0].newInstance(arguments)


class Plan:
    """The staged files of one step; a context manager, because the JVM keeps them until `close`.

    Attributes:
        files: The number of files of each set.
        rows: The number of rows in these files, with deleted ones.
        has_lineage: Whether all of these rows have a row id.
        until: For a full snapshot: how many of its `of` files have been read after this plan.
    """

    def __init__(self, spark: Engine, identifier: str, java: Any, java_table: Any, types: str) -> None:
        self._spark = spark
        self._java = java
        self._java_table = java_table
        self._types = types  # of Spark, as JSON; empty: Spark itself can read the table
        self.identifier = identifier
        with java_errors(_STEP, identifier):
            self.files = {name: int(java.size(name)) for name in SETS}
            self.rows = {name: int(java.rows(name)) for name in SETS}
            self.has_lineage = all(java.hasLineage(name) for name in SETS)
            self.until, self.of = int(java.until()), int(java.files())

    def read(self, name: str) -> DataFrame:
        """Read one of the sets, with the table's current columns in the types of `Planner.schema`.

        The metadata columns `_row_id`, with lineage, and `_deleted` can be selected, too. Deleted rows are left out of
        ADDED and REMOVED; of the other two sets `_deleted` must be selected.

        Raises:
            UnsupportedError: A column cannot be read.
        """
        with reading(self.identifier):
            if not self._types:
                return self._spark.data_frame(self._java.read(name, self._spark.java_session))
            arguments = self._spark.object_array(self._java_table, self.has_lineage, name in (DELETED, RESTORED))
            rows = self._spark.task_class(__name__, "Rows").getConstructors()[0].newInstance(arguments)
            return self._spark.data_frame(rows.read(self._spark.java_session, self._java.staged(name), self._types))

    def close(self) -> None:
        """Release the staged files. May be called twice."""
        with java_errors(_STEP, self.identifier):
            self._java.close()

    def __enter__(self) -> Plan:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@contextmanager
def reading(identifier: str) -> Iterator[None]:
    """Convert the errors of a block that reads a table's snapshots to Calve's.

    Raises:
        PositionLostError: A file of them no longer exists.
        UnreadFileError: A file of them cannot be read.
    """
    try:
        with java_errors(_STEP, identifier):
            yield
    except Exception as error:
        cause = error.__cause__
        if isinstance(cause, Exception) and caused_by(cause, *_GONE):
            hint = "Snapshots expired while they were read; start without a position to read all retained snapshots"
            message = f"Files of snapshots of {identifier} no longer exist"
            raise PositionLostError(message, step=_STEP, target=identifier, hint=hint) from error
        if isinstance(cause, Exception) and caused_by(cause, _UNSUPPORTED):
            hint = (
                "Rewrite the table with the engine that wrote it; calve show, which uses another library, may print it"
            )
            raise UnreadFileError(str(error).rstrip(". "), step=_STEP, target=identifier, hint=hint) from error
        raise
