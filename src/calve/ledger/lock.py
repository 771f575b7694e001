"""One driver per pipeline: a file lock that the system releases when its holder dies, however it dies."""

from __future__ import annotations

import fcntl
import json
import os
import socket
from pathlib import Path

from calve.errors import OvertakenError
from calve.files.private import private
from calve.state import durable

__all__ = ["DriverLock"]


class DriverLock:
    """Held from construction to `release`, or to the end of the process.

    Raises:
        OvertakenError: Another driver holds it; the message says which.
        WriteError: The file cannot be opened.
    """

    def __init__(self, file: Path) -> None:
        try:
            self._handle = private(str(file), os.O_RDWR | os.O_CREAT)  # Python's handles are not inherited
        except OSError as error:
            raise durable.refused(file, error) from error
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = _holder(file)
            os.close(self._handle)
            raise OvertakenError(
                f"Another driver runs this pipeline{holder}",
                step="start",
                target=str(file.parent),
                hint="Stop that one first, or give this one another `--state`",
            ) from error
        os.ftruncate(self._handle, 0)
        os.pwrite(self._handle, json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode(), 0)

    def release(self) -> None:
        """Let the next driver in. May be called twice."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


def _holder(file: Path) -> str:
    try:
        holder = json.loads(file.read_bytes())
        return f": process {holder['pid']} on {holder['host']}"
    except (OSError, ValueError, KeyError):
        return ""
