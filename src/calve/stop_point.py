"""Named points of the path where a test makes something go wrong; free when none is set.

`CALVE_STOP_AT=commit.before-swap` ends the process as `kill -9` would, at the first time this point is reached;
`commit.before-swap:3` at the third. With `CALVE_STOP_ONCE=<file>` only the first process that gets there ends, and
creates the file. `CALVE_FAIL_ON=task.convert:poison` raises an error that nobody foresaw wherever
this point meets this text; `task.convert!poison` ends the process there. `;` separates several.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterable

__all__ = ["FAIL_VARIABLE", "ONCE_VARIABLE", "VARIABLE", "fail_if", "stop_at"]

VARIABLE = "CALVE_STOP_AT"
ONCE_VARIABLE = "CALVE_STOP_ONCE"
FAIL_VARIABLE = "CALVE_FAIL_ON"
_point, _, _nth = os.environ.get(VARIABLE, "").partition(":")
_times_left = int(_nth or 1)
_once = os.environ.get(ONCE_VARIABLE, "")
_failing = re.findall(r"([^:!;]+)([:!])([^;]+)", os.environ.get(FAIL_VARIABLE, ""))


def stop_at(point: str) -> None:
    """End the process here, without any clean-up, if the environment names this point."""
    global _times_left
    if point != _point:
        return
    _times_left -= 1
    if _times_left == 0 and _is_first():
        os.kill(os.getpid(), signal.SIGKILL)


def _is_first() -> bool:
    """Return whether no other process has ended here, if only one may."""
    if not _once:
        return True
    try:
        os.close(os.open(_once, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def fail_if(point: str, texts: Callable[[], Iterable[object]]) -> None:
    """Fail here if the environment names this point and a text that one of `texts` contains.

    Raises:
        RuntimeError: It does.
    """
    for where, how, what in _failing:
        if point == where and any(what in str(text) for text in texts()):
            if how == "!":
                os.kill(os.getpid(), signal.SIGKILL)
            raise RuntimeError(f"{point} met {what}")
