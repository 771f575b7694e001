"""Named points of the path where a crash test ends the process as `kill -9` would; free when none is set.

`CALVE_STOP_AT=commit.before-swap` stops at the first time this point is reached, `commit.before-swap:3` at the third.
"""

from __future__ import annotations

import os
import signal

__all__ = ["VARIABLE", "reach"]

VARIABLE = "CALVE_STOP_AT"
_point, _, _nth = os.environ.get(VARIABLE, "").partition(":")
_times_left = int(_nth or 1)


def reach(point: str) -> None:
    """End the process here, without any clean-up, if the environment names this point."""
    global _times_left
    if point != _point:
        return
    _times_left -= 1
    if _times_left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
