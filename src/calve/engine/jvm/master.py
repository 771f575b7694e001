"""Spark's master URL, checked before Spark starts: Spark itself needs a minute to give up on a missing master."""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import Mapping

from calve.errors import EngineError

__all__ = ["MASTER", "TASK_TRIES", "check_master", "is_local", "master_of"]

MASTER = "local[*]"
TASK_TRIES = 4
"""How often Spark tries a task before the batch fails."""

_KNOWN = re.compile(
    r"local(\[(\*|[1-9]\d*)(, *\d+)?\])?|local-cluster\[[\d, ]+\]|yarn|k8s://.+|spark://[^,/]+:\d+(,[^,/]+:\d+)*"
)
_TIMEOUT_SECONDS = 5.0


def master_of(master: str | None, conf: Mapping[str, str]) -> str:
    """Return Spark's master URL; that of a local master with the number of tries, without which it repeats nothing."""
    chosen = conf.get("spark.master") or master or MASTER
    local = re.fullmatch(r"local(?:\[([^,\]]+)\])?", chosen)
    return f"local[{local.group(1) or 1},{TASK_TRIES}]" if local else chosen


def is_local(master: str) -> bool:
    """Return whether tasks run on this machine, in the driver's JVM."""
    return re.match(r"local\b(?!-)", master) is not None


def check_master(master: str) -> None:
    """Check a master URL, and that a standalone master answers.

    Raises:
        EngineError: It is not a master URL, or no master answers there.
    """
    if not _KNOWN.fullmatch(master):
        hint = "Write local[4], local[*], spark://host:7077, yarn or k8s://https://host:443"
        raise EngineError(f"{master} is not a Spark master", step="engine", target=master, hint=hint)
    if not master.startswith("spark://"):
        return
    reasons = []
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        try:
            with contextlib.closing(socket.create_connection((host.strip("[]"), int(port)), _TIMEOUT_SECONDS)):
                return
        except (OSError, OverflowError) as error:
            reasons.append(f"{address}: {getattr(error, 'strerror', None) or error}")
    raise EngineError(
        f"No Spark master answers at {master} ({'; '.join(reasons)})",
        step="engine",
        target=master,
        hint="Start it, correct --master, or omit --master to run on this machine",
    )
