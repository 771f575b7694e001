"""Keeps the JVM's output until it has started: if it does not start, the output has the reason."""

from __future__ import annotations

import os
import re
import threading

__all__ = ["JvmOutput"]

_EXCEPTION = re.compile(r'Exception in thread "[^"]*" (?:[\w$]+\.)*[\w$]+: (.*)')
_NO_REASON = re.compile(r"\s+at |\s*\.\.\. |#|Picked up |WARNING: |\s*$")
"""Java's stack traces, crash reports, and messages of a normal start."""


class JvmOutput:
    """A pipe from a JVM's output to our stderr.

    Attributes:
        pipe: The end for the JVM.
    """

    def __init__(self) -> None:
        read, self.pipe = os.pipe()
        self._lock = threading.Lock()
        self._kept_lines: list[bytes] | None = []
        self._thread = threading.Thread(target=self._copy, args=(read,), name="jvm-output", daemon=True)

    def read(self) -> None:
        """Read from now on; until then the pipe has room for what a JVM prints that does not start."""
        self._thread.start()

    def started(self) -> None:
        """Pass on all output, including the kept lines."""
        os.close(self.pipe)
        with self._lock:
            kept_lines, self._kept_lines = self._kept_lines or [], None
            for line in kept_lines:
                os.write(2, line)

    def reason(self) -> str | None:
        """Wait for the JVM's end, and return its own reason for not starting; None without one."""
        os.close(self.pipe)
        self.ended()
        lines = [line.decode(errors="replace").rstrip() for line in self._kept_lines or []]
        exception = next((match[1] for line in lines if (match := _EXCEPTION.match(line))), None)
        return exception or next((line for line in lines if not _NO_REASON.match(line)), None)

    def ended(self) -> None:
        """Wait until all output is passed on."""
        self._thread.join()

    def _copy(self, read: int) -> None:
        with os.fdopen(read, "rb") as lines:
            for line in lines:
                self._relay(line)

    def _relay(self, line: bytes) -> None:
        with self._lock:
            if self._kept_lines is None:
                os.write(2, line)
            else:
                self._kept_lines.append(line)
