"""CPU seconds of this process's descendants, so that what else runs on a shared machine does not count."""

from __future__ import annotations

import os
import threading
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_SAMPLE_SECONDS = 0.2


class OwnCpu:
    """Adds up what every descendant has used, from its start; samples, as processes come and go.

    What a process uses after its last sample is lost: a fifth of a second at most.
    """

    def __init__(self) -> None:
        self._used: dict[tuple[int, int], float] = {}
        self._ended = threading.Event()
        threading.Thread(target=self._run, daemon=True).start()

    def seconds(self) -> float:
        """Give the seconds so far."""
        self._sample()
        return sum(list(self._used.values()))

    def _run(self) -> None:
        while not self._ended.wait(_SAMPLE_SECONDS):
            self._sample()

    def _sample(self) -> None:
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                text = (folder / "stat").read_text()
            except OSError:  # it has ended
                continue
            values = text[text.rindex(")") + 2 :].split()
            found[int(folder.name)] = (int(values[1]), int(values[19]), (int(values[11]) + int(values[12])) / _TICKS)
        for process, (parent, started, used) in found.items():
            while parent in found and parent != os.getpid():
                parent = found[parent][0]
            if parent == os.getpid():
                self._used[process, started] = used
