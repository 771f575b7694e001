"""The data source that Spark runs in Python processes of its own: planners beside the driver, and executors.

These have no JVM. So a planner asks the user's program (`driver.py`), which has a session, for the changes; it keeps
their rows in files, and executors read these. What Spark gives executors has no secret of the driver: to ask it, one
must reach a socket in a folder of its user.
"""

from __future__ import annotations

import json
import os
import socket
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from calve.errors import CalveError, EngineError, SettingsError, SourceError, SourceUnavailableError
from calve.sources.source import Split
from calve.sources.spark.reader import FrameReader

__all__ = ["FORMAT", "ChangesSource", "DriverAddress", "received"]

FORMAT = "calve_changes"
_PAUSE_SECONDS = 1.0
"""Spark asks an idle stream for news a hundred times a second."""


@dataclass(frozen=True)
class DriverAddress:
    """Where the user's program answers.

    Attributes:
        socket: The path of its Unix socket.
        session: The number of the session in it.
    """

    socket: str
    session: int

    def ask(self, call: str, **arguments: Any) -> Any:
        """Return the program's answer to a call: one of `ChangesAnswers`.

        Raises:
            CalveError: The program's error; Spark shows it without our traceback.
        """
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(self.socket)
                connection.sendall(json.dumps([self.session, call, arguments]).encode())
                connection.shutdown(socket.SHUT_WR)
                answer = json.loads(received(connection))
        except (OSError, ValueError) as error:
            hint = "Call calve.spark.register(spark) again"
            message = f"The program that registered {FORMAT} does not answer ({type(error).__name__})"
            raise _shown(EngineError(message, step="changes", hint=hint)) from None
        if "error" in answer:
            raise _shown(CalveError.from_dict(answer["error"]))
        return answer["value"]


@dataclass(repr=False)
class _Part(InputPartition):  # type: ignore[misc]  # PySpark's has no types
    """A part of kept rows; its text has no keys of the store."""

    reader: FrameReader
    split: Split


class ChangesSource(DataSource):  # type: ignore[misc]
    """The format `calve_changes`. `register` gives each session a class of its own, with its address."""

    driver: ClassVar[DriverAddress]

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return FORMAT

    def schema(self) -> StructType:
        """Return the columns of the changes, and remember the table's snapshots: a DataFrame does not change."""
        self.opened = self.driver.ask("open", options=dict(self.options))
        return StructType.fromJson(self.opened["schema"])

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch."""
        return _BatchReader(self._request(), self.opened["head"], self.opened["oldest"])

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return the reader of a stream."""
        return _StreamReader(self._request())

    def _request(self) -> _Request:
        if not hasattr(self, "opened"):
            message = f"{FORMAT} has a schema of its own: the table's columns, and those of the changes"
            raise _shown(
                SettingsError(message, step="settings", hint="Omit .schema(…), and select columns after load()")
            )
        return _Request(self.driver, self.opened["options"], self.opened["schema"])


@dataclass(frozen=True)
class _Request:
    driver: DriverAddress
    options: dict[str, str]
    schema: dict[str, Any]

    def rows(self, **arguments: Any) -> list[_Part]:
        answer = self.driver.ask("rows", options=self.options, schema=self.schema, **arguments)
        reader = FrameReader(answer["folder"], answer["storage"])
        return [_Part(reader, Split(body)) for body in answer["parts"]]


class _PartReader:
    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part; Spark reads None if there are no parts."""
        if not isinstance(partition, _Part):
            return
        try:
            yield from partition.reader.batches(partition.split)
        except SourceUnavailableError as error:
            error.hint = "Check the store, and the keys that the program which registered the format has"
            raise _shown(error) from None
        except SourceError as error:
            error.hint = "Run the query again: files are removed when the program ends, and after a week"
            raise _shown(error) from None


class _BatchReader(_PartReader, DataSourceReader):  # type: ignore[misc]
    def __init__(self, request: _Request, head: int | None, oldest: int | None) -> None:
        self._request, self._head, self._oldest = request, head, oldest

    def partitions(self) -> Sequence[InputPartition]:
        return self._request.rows(after=self._oldest, until=self._head)


class _StreamReader(_PartReader, DataSourceStreamReader):  # type: ignore[misc]
    """Its offsets are `{"snapshot_id": id}`: all snapshots up to this one are read; null: none."""

    def __init__(self, request: _Request) -> None:
        self._request = request
        self._query = uuid.uuid4().hex
        self._position: int | None = None
        self._has_position = False
        self._look_at = 0.0

    def initialOffset(self) -> dict[str, int | None]:  # noqa: N802
        return {"snapshot_id": self._ask("start")}

    def latestOffset(self) -> dict[str, int | None]:  # noqa: N802
        """Return the end of the next batch; Spark asks a new stream before it asks for its beginning."""
        if not self._has_position:
            self._move(self.initialOffset())
        time.sleep(max(0.0, self._look_at - time.monotonic()))
        newest = self._ask("newest", after=self._position)
        if newest == self._position:
            self._look_at = time.monotonic() + _PAUSE_SECONDS
        return {"snapshot_id": newest}

    def partitions(self, start: dict[str, int | None], end: dict[str, int | None]) -> Sequence[InputPartition]:
        """Return the parts of a batch; at a start, Spark also calls it with the checkpoint's newest offset as both."""
        self._move(end)
        if start == end:
            return []
        return self._request.rows(query=self._query, after=start["snapshot_id"], until=end["snapshot_id"])

    def commit(self, end: dict[str, int | None]) -> None:
        self._request.driver.ask("forget", query=self._query, until=end["snapshot_id"])

    def stop(self) -> None:
        with suppress(CalveError):  # the program may have ended
            self._request.driver.ask("forget", query=self._query)

    def _move(self, offset: dict[str, int | None]) -> None:
        self._position, self._has_position = offset["snapshot_id"], True

    def _ask(self, call: str, **arguments: Any) -> Any:
        return self._request.driver.ask(call, options=self._request.options, **arguments)


def received(connection: socket.socket) -> bytes:
    """Return all that the other end of a connection sends until it has ended.

    Raises:
        OSError: The connection broke.
    """
    with connection.makefile("rb") as stream:
        return stream.read()


def _shown(error: CalveError) -> CalveError:
    """Let PySpark show an error without a traceback; the process ends after it."""
    os.environ["SPARK_HIDE_TRACEBACK"] = "1"
    return error
