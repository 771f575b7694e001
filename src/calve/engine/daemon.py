"""The process that forks Spark's Python workers, with everything heavy imported before it forks.

Spark starts it as `python -m calve.engine.daemon` (`spark.python.daemon.module`). What `CALVE_PRELOAD` names (modules,
comma-separated) is imported once here instead of once in each worker.

On the driver's machine an `EarlyDaemon` is started before Spark and imports while the JVM starts. What Spark starts
then only gives it its environment and its standard streams, and waits for it to end.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path

__all__ = ["EARLY", "PRELOAD", "EarlyDaemon"]

PRELOAD = "CALVE_PRELOAD"
EARLY = "CALVE_EARLY_DAEMON"
"""The socket of the early daemon, in a folder of its user's alone."""
_WAITS = "early"
_TAKEN = b"1"
_ZIPS = ("pyspark.zip", "-src.zip")
_STREAMS = (0, 1, 2)
_END_SECONDS = 10


class EarlyDaemon:
    """A daemon that imports now and waits for Spark to want one. It ends with Spark, or with this process.

    Args:
        preload: The modules that it imports.

    Attributes:
        socket: Where what Spark starts finds it.
    """

    def __init__(self, preload: Sequence[str]) -> None:
        self.socket = str(Path(tempfile.mkdtemp(prefix="calve-daemon-")) / "socket")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "calve.engine.daemon", _WAITS],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,  # it gets Spark's streams later
            stderr=subprocess.DEVNULL,  # where it fails, what Spark starts does its work, and tells
            env=os.environ | {PRELOAD: ",".join(preload), EARLY: self.socket},
            process_group=0,  # Ctrl-C is for the driver, and PySpark wants a group that this process leads
        )

    def close(self) -> None:
        """End it where Spark never wanted it, and wait for its end; Spark has ended before."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _main() -> None:
    place = os.environ.pop(EARLY, "")
    if sys.argv[1:] == [_WAITS]:
        try:
            is_wanted = _wait(place)
        finally:
            shutil.rmtree(Path(place).parent, ignore_errors=True)
        if not is_wanted:
            return
    elif place and _hand_over(place):
        return
    else:
        _import()
    importlib.import_module("pyspark.daemon").manager()


def _import() -> None:
    """Import what workers need, and PySpark from where it is installed: out of Spark's zips Python compiles it anew."""
    unpacked = [entry for entry in sys.path if not entry.endswith(_ZIPS)]
    if PathFinder.find_spec("pyspark", unpacked):
        sys.path[:] = unpacked
    for module in filter(None, os.environ.get(PRELOAD, "").split(",")):
        importlib.import_module(module)


def _hand_over(place: str) -> bool:
    """Give the early daemon what Spark gave this process, and wait for its end; False when it is gone or taken."""
    given = json.dumps({"environment": dict(os.environ), "arguments": sys.argv}).encode()
    with socket.socket(socket.AF_UNIX) as early:
        try:
            early.connect(place)
            socket.send_fds(early, [len(given).to_bytes(4, "big")], _STREAMS)
            early.sendall(given)
            taken = early.recv(1)
        except OSError:
            return False
        if not taken:
            return False
        for stream in _STREAMS:
            os.close(stream)  # else Spark's end of them would not be the last one
        early.recv(1)
    return True


def _wait(place: str) -> bool:
    """Import, wait until Spark wants a daemon, and become it; False when the driver has ended before."""
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(place)
        door.listen(1)
        _import()
        if door not in select.select([door, sys.stdin], [], [])[0]:
            return False
        starter, _ = door.accept()
    _become(starter)
    return True


def _become(starter: socket.socket) -> None:
    """Take over the environment, arguments and streams of the process that Spark has started."""
    length, streams, _, _ = socket.recv_fds(starter, 4, len(_STREAMS))
    with starter.makefile("rb") as file:
        given = json.loads(file.read(int.from_bytes(length, "big")))
    for stream, wanted in zip(streams, _STREAMS, strict=True):
        os.dup2(stream, wanted)
        os.close(stream)
    os.environ.clear()
    os.environ.update(given["environment"])
    sys.argv[:] = given["arguments"]
    starter.sendall(_TAKEN)
    starter.detach()  # open until this process ends: its starter waits for that


if __name__ == "__main__":
    _main()
