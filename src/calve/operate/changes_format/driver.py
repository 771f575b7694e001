"""Lets the planners of `calve_changes` ask the user's program, which has the session, through a Unix socket.

The socket is in a temporary folder of this user only, so it needs no secret. The planner's question comes while a call
of the program waits for the JVM; another thread answers it, and may run jobs.
"""

from __future__ import annotations

import atexit
import json
import os
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from calve.engine.java.errors import unforeseen_errors
from calve.errors import CalveError, EngineError, InvariantError
from calve.files.temporary import temporary_folder
from calve.operate.changes_format.answers import ChangesAnswers
from calve.operate.changes_format.source import FORMAT, ChangesSource, DriverAddress, received

__all__ = ["register"]

_LONGEST_PATH_BYTES = 100
"""Of a Unix socket: 107 on Linux, 103 on macOS."""
_CALLS = ("open", "rows", "start", "newest", "forget")
_THREADS = 8
_lock = threading.Lock()
_driver: _Driver | None = None


def register(spark: SparkSession) -> None:
    """Let a session read `calve_changes`. May be repeated.

    Raises:
        EngineError: Calve cannot run on the session, or the temporary folder cannot have a socket.
    """
    global _driver
    with _lock:
        if _driver is None or not _driver.answers():
            _driver = _Driver()
        address = DriverAddress(_driver.socket, _driver.session(spark))
    # a class that no module has is pickled with its attributes
    spark.dataSource.register(type("CalveChanges", (ChangesSource,), {"driver": address}))


class _Driver:
    """Answers the planners of this process, until it ends."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self._answers: list[ChangesAnswers] = []
        with ExitStack() as closing:
            self._folder = closing.enter_context(temporary_folder("calve-changes-"))
            self.socket = str(self._folder / "driver")
            if len(os.fsencode(self.socket)) > _LONGEST_PATH_BYTES:
                message = f"The path {self.socket} is too long for a socket"
                raise EngineError(message, step="engine", hint="Set TMPDIR to a folder with a short name, such as /tmp")
            self._listener = closing.enter_context(socket.socket(socket.AF_UNIX))
            try:
                self._listener.bind(self.socket)
                self._listener.listen()
            except OSError as error:
                message = f"The folder {self._folder} cannot have a socket: {error}"
                raise EngineError(message, step="engine", hint="Set TMPDIR to a local folder") from error
            self._closing = closing.pop_all()
        os.register_at_fork(after_in_child=self._listener.close)  # nobody accepts there when this process has ended
        self._pool = ThreadPoolExecutor(_THREADS, FORMAT)
        self._is_closed = False
        self._thread = threading.Thread(target=self._serve, name=FORMAT, daemon=True)
        self._thread.start()
        atexit.register(self._close)

    def answers(self) -> bool:
        """Return whether it is of this process, and planners find it: the end of a fork may remove its folder."""
        return self.process == os.getpid() and Path(self.socket).exists()

    def session(self, spark: SparkSession) -> int:
        """Return the number of a session, which is added if it is new."""
        for number, answers in enumerate(self._answers):
            if answers.is_of(spark):
                return number
        self._answers.append(ChangesAnswers(spark, self._folder / "rows"))
        return len(self._answers) - 1

    def _serve(self) -> None:
        while not self._is_closed:
            with suppress(OSError):  # the planner has ended
                connection, _ = self._listener.accept()
                try:
                    self._pool.submit(self._answer, connection)
                except RuntimeError:  # this program ends, or can have no more threads
                    _end(connection)

    def _answer(self, connection: socket.socket) -> None:
        try:
            with suppress(OSError, ValueError):  # the planner has ended
                answer = self._answer_to(*json.loads(received(connection)))
                connection.sendall(json.dumps(answer).encode())
        finally:
            _end(connection)

    def _answer_to(self, session: int, call: str, arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            with unforeseen_errors("changes"):
                return {"value": self._called(session, call, arguments)}
        except CalveError as error:
            return {"error": error.to_dict()}

    def _called(self, session: int, call: str, arguments: dict[str, Any]) -> Any:
        if call not in _CALLS:
            raise InvariantError(f"{FORMAT} has no call {call}", step="changes")
        return getattr(self._answers[session], call)(**arguments)

    def _close(self) -> None:
        """Remove all kept rows, and end the thread, at the end of the process that registered; not of a fork of it."""
        if os.getpid() != self.process:
            return
        self._is_closed = True
        with suppress(OSError), socket.socket(socket.AF_UNIX) as waking:
            waking.connect(self.socket)  # accept() returns
        self._thread.join(timeout=5)
        for answers in self._answers:
            answers.close()
        self._closing.close()


def _end(connection: socket.socket) -> None:
    """Tell the other end that nothing more comes; a fork of this process may hold the connection open."""
    with connection, suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
