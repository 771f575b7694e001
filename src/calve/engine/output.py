"""What the JVM prints: held back until it has started, because it tells why if it does not."""

from __future__ import annotations

import os
import re
import threading

__all__ = ["JvmOutput"]

_EXCEPTION = re.compile(r'Exception in thread "[^"]*" (?:[\w$]+\.)*[\w$]+: (.*)')
_NO_REASON = re.compile(r"\s+at |\s*\.\.\. |#|Picked up |WARNING: |\s*$")
"""Stacks of Java, the report of a crash, and what a JVM says that starts."""


class JvmOutput:
    """A pipe for all that a JVM prints, which goes to our stderr.

    Attributes:
        pipe: The end for the JVM.
    """

    def __init__(self) -> None:
        read, self.pipe = os.pipe()
        self._lock = threading.Lock()
        self._held: list[bytes] | None = []
        self._thread = threading.Thread(target=self._copy, args=(read,), name="jvm-output", daemon=True)
        self._thread.start()

    def started(self) -> None:
        """Let everything through, also what was held back."""
        os.close(self.pipe)
        with self._lock:
            held, self._held = self._held or [], None
            for line in held:
                os.write(2, line)

    def reason(self) -> str | None:
        """Return why the JVM did not start, in its own words, once it has ended; None: it said nothing."""
        os.close(self.pipe)
        self.ended()
        lines = [line.decode(errors="replace").rstrip() for line in self._held or []]
        found = next((match[1] for line in lines if (match := _EXCEPTION.match(line))), None)
        return found or next((line for line in lines if not _NO_REASON.match(line)), None)

    def ended(self) -> None:
        """Wait until all that was printed is through."""
        self._thread.join()

    def _copy(self, read: int) -> None:
        with os.fdopen(read, "rb") as lines:
            for line in lines:
                self._take(line)

    def _take(self, line: bytes) -> None:
        with self._lock:
            if self._held is None:
                os.write(2, line)
            else:
                self._held.append(line)
