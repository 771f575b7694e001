"""Looks at Spark's master URL before Spark starts: Spark itself takes a minute to give up a master that is away."""

from __future__ import annotations

import contextlib
import re
import socket

from calve.errors import EngineError

__all__ = ["check_master"]

_KNOWN = re.compile(r"local(-cluster)?(\[[\d*, ]+\])?|yarn|k8s://.+|spark://[^,/]+:\d+(,[^,/]+:\d+)*")
_TIMEOUT_SECONDS = 5.0


def check_master(master: str) -> None:
    """See whether Spark has such a master, and whether a standalone one answers.

    Raises:
        EngineError: It is no master's URL, or nobody answers there.
    """
    if not _KNOWN.fullmatch(master):
        hint = "Write local[4], local[*], spark://host:7077, yarn or k8s://https://host:443"
        raise EngineError(f"{master} is no master of Spark", step="engine", target=master, hint=hint)
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
        hint="Start it, correct --master, or leave --master out to run on this machine",
    )
