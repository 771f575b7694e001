"""`<state>/<pipeline>/log.txt`: the last lines of a run's log, for the dashboard; without values of rows and secrets.

A line of the log may have a shortened value of a row, in the reason why it was rejected. Here these parts are left out:
what the caller names as `values`, and everything in quotes.
"""

from __future__ import annotations

import logging
import re
import threading
from collections import deque
from datetime import UTC, datetime

from calve.credentials import without_credentials
from calve.observe.humanize import harmless

__all__ = ["LINES_FILE", "MOST_LINES", "RecentLines"]

LINES_FILE = "log.txt"
MOST_LINES = 200
_MOST_CHARACTERS = 600
_MOST_PIPELINES = 1_000
_QUOTED = re.compile(r"(?<!\w)(['\"]).*\1(?!\w)", re.DOTALL)
_WORDS = {logging.WARNING: "warning: ", logging.ERROR: "error: "}


class RecentLines(logging.Handler):
    """Keeps the last lines of each pipeline; those of the whole process belong to all. Thread-safe."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._guard = threading.Lock()
        self._common: deque[str] = deque(maxlen=MOST_LINES)
        self._lines: dict[str, deque[str]] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record."""
        pipeline, line = getattr(record, "calve_pipeline", ""), _line(record)
        with self._guard:
            if not pipeline:
                self._common.append(line)
                for lines in self._lines.values():
                    lines.append(line)
            elif pipeline in self._lines or len(self._lines) < _MOST_PIPELINES:
                self._of(pipeline).append(line)

    def content(self, pipeline: str) -> bytes:
        """Return the lines of a pipeline as the content of its file."""
        with self._guard:
            return "".join(f"{line}\n" for line in self._of(pipeline)).encode(errors="replace")

    def _of(self, pipeline: str) -> deque[str]:
        if pipeline not in self._lines:
            self._lines[pipeline] = deque(self._common, maxlen=MOST_LINES)
        return self._lines[pipeline]


def _line(record: logging.LogRecord) -> str:
    message, fields = record.getMessage(), getattr(record, "calve_fields", {})
    if values := getattr(record, "calve_values", ""):
        message = message.replace(values, "…")
    message = _QUOTED.sub("…", message)
    hint = f". {fields['hint']}" if fields.get("hint") else ""
    clock = datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    text = harmless(without_credentials(f"{_WORDS.get(record.levelno, '')}{message}{hint}"))
    return f"{clock} {text[:_MOST_CHARACTERS]}{'…' * (len(text) > _MOST_CHARACTERS)}"
