"""The file descriptors of this process: as many as it may have, and some that no client can take.

Files of the ledger, of dead letters and of tables need descriptors, too: who only connects must not stop a commit.
"""

from __future__ import annotations

import contextlib
import resource

__all__ = ["is_reserved", "raise_limit"]

_MOST = 1 << 16
_RESERVE = 256


def raise_limit() -> None:
    """Let this process open as many files as the system lets it, within reason."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST if hard == resource.RLIM_INFINITY else min(hard, _MOST)
    if soft != resource.RLIM_INFINITY and soft < most:
        with contextlib.suppress(OSError, ValueError):  # macOS has a lower limit of its own
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def is_reserved(descriptor: int) -> bool:
    """Return whether a client's connection has a descriptor of the reserve: the system always gives the lowest one."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft != resource.RLIM_INFINITY and descriptor >= soft - min(_RESERVE, soft // 4)
