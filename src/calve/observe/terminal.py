"""The only writer to stderr while pipelines run: permanent lines, and below them one line that is redrawn."""

from __future__ import annotations

import os
import shutil
import threading
from typing import TextIO

from calve.observe.humanize import harmless, harmless_text

__all__ = ["CLEAR", "Terminal"]

CLEAR = "\r\x1b[2K"


class Terminal:
    """Writes whole lines from any thread; `live` means a terminal, not a file or a pipe.

    If the reader of a pipe ends (`2>&1 | head`), nothing more is written; this is not an error.
    """

    def __init__(self, stream: TextIO, live: bool | None = None) -> None:
        self._stream = stream
        self._lock = threading.RLock()
        self._shown = ""
        self._broken = False
        self.live = (stream.isatty() and os.environ.get("TERM") != "dumb") if live is None else live

    def line(self, text: str) -> None:
        """Write a permanent line, or several; what could control the terminal is escaped."""
        with self._lock:
            again = self._shown
            self._write((CLEAR if again else "") + harmless_text(text) + "\n" + again)

    def redraw(self, text: str) -> None:
        """Replace the live line, cut to the terminal's width; an empty text clears it. No effect without a terminal."""
        if not self.live:
            return
        with self._lock:
            text = harmless(text)[: max(shutil.get_terminal_size().columns - 1, 20)]
            if text != self._shown:
                self._write(CLEAR + text)
                self._shown = text

    def _write(self, text: str) -> None:
        if self._broken:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):  # ValueError: closed
            self._broken = True
