"""Keeps the snapshot alive under which the tables are loaded, and replaces it when its session is lost.

A snapshot lives as long as the session that exported it. Rows that are read under a later one may have changes that
the stream has, too: they, and the stream's inserts up to there, replace rows with the same key.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

from calve.errors import CalveError
from calve.network.backoff import delay
from calve.observe.log import Log
from calve.sources.postgres.catalog.database import PostgresCatalog
from calve.sources.postgres.failure import explained
from calve.sources.postgres.protocol.quote import literal
from calve.sources.postgres.protocol.wire import PostgresConnection, connect
from calve.sources.postgres.settings import PostgresSettings
from calve.sources.source_files import FilesAt, SourceFiles, encoded, files_in, read_json

__all__ = ["KeptSnapshot", "SnapshotName"]

_FILE = "snapshot.json"
_PING_SECONDS = 1.0
_STEP = "load"


class SnapshotName(NamedTuple):
    """The snapshot for the tasks.

    Attributes:
        name: What PostgreSQL calls it.
        until: A position after every commit that it has; 0: it is exactly the beginning of the stream.
    """

    name: str
    until: int

    @staticmethod
    def read(folder: FilesAt) -> SnapshotName:
        """Return the current snapshot; on executors, too."""
        noted = read_json(files_in(folder), _FILE)
        return SnapshotName(*noted) if noted else SnapshotName("", 0)


class KeptSnapshot:
    """The snapshot of one source.

    Args:
        settings: The source's settings.
        files: The source's files.
        pipeline: The pipeline's name.
    """

    def __init__(self, settings: PostgresSettings, files: SourceFiles, pipeline: str) -> None:
        self._settings = settings
        self._files = files
        self._name = f"calve {pipeline} snapshot"
        self._lines = Log(pipeline)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def is_open(self) -> bool:
        """Whether it is kept."""
        return self._thread is not None and not self._stop.is_set()

    def open(self, exported: str | None) -> None:
        """Take over an exported snapshot, or make a new one, and keep it until `close`.

        Raises:
            SourceError: The server does not answer, or refuses.
        """
        if self._thread is not None:  # of an earlier load, which has ended
            self._thread.join()
        self._stop.clear()
        connection = self._begin(exported)
        self._thread = threading.Thread(target=self._keep, args=(connection,), name="calve-snapshot", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Let the snapshot go; any thread, may be called twice."""
        self._stop.set()

    def _begin(self, exported: str | None) -> PostgresConnection:
        with explained(self._settings, _STEP, "a snapshot"):
            connection = connect(self._settings.address, self._name)
            try:
                connection.query("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                if exported:
                    connection.query(f"SET TRANSACTION SNAPSHOT {literal(exported)}")
                name = connection.query("SELECT pg_export_snapshot()")[0][0] or ""
                until = 0 if exported else PostgresCatalog(connection).now()
            except BaseException:
                connection.close()
                raise
        self._files.write(_FILE, encoded([name, until]))
        return connection

    def _keep(self, connection: PostgresConnection) -> None:
        failures = 0
        while not self._stop.wait(_PING_SECONDS if not failures else delay(failures)):
            try:
                with explained(self._settings, _STEP):
                    connection.query("SELECT 1")
                failures = 0
            except CalveError:
                failures += 1
                connection.close()
                try:
                    connection = self._begin(None)
                    failures = 0
                    self._lines.info("the load continues under a new snapshot, because the old one's session was lost")
                except CalveError as error:
                    self._lines.debug(str(error))
        connection.close()
