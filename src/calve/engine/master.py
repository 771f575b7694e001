"""Checks Spark's master URL before Spark starts: Spark itself needs a minute to give up on a missing master."""

from __future__ import annotations

import contextlib
import re
import socket

from calve.errors import EngineError

__all__ = ["check_master"]

_KNOWN = re.compile(
    r"local(\[(\*|[1-9]\d*)(, *\d+)?\])?|local-cluster\[[\d, ]+\]|yarn|k8s://.+|spark://[^,/]+:\d+(,[^,/]+:\d+)*"
)
_TIMEOUT_SECONDS = 5.0


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
