"""Server processes: started with their output in a file, waited for, stopped by pid."""

from __future__ import annotations

import ctypes
import itertools
import os
import pwd
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Self

START_SECONDS = 240.0
STOP_SECONDS = 60.0
PR_SET_PDEATHSIG = 1
_PORTS = (11_000, 22_000)
_claims: list[socket.socket] = []
"""What holds the ports of `free_ports`."""


def free_ports(count: int) -> list[int]:
    """Return ports of loopback that nobody listens on, all different, and free 10,000 higher too (gRPC of seaweedfs).

    They lie below the ports that Linux hands out, so that no other process is given one while its server is restarted.
    Until this process ends, no other one that asks here gets them: a UDP socket holds each.
    """
    found = (port for port in iter(_any_port, None) if _claim(port))
    return list(itertools.islice(found, count))


class Server:
    """A server in a folder, as a context manager; stopped or killed and started again it keeps its data."""

    _QUIT: ClassVar[signal.Signals] = signal.SIGTERM
    _process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Its process id; 0 when it is down. Its sessions may be children of it."""
        return self._process.pid if self._process else 0

    def start(self) -> Self:
        """Start it and wait until it answers."""
        raise NotImplementedError

    def stop(self, kill: bool = False) -> None:
        """Stop it, or kill it with its children (-9) as a crash would; may be called twice."""
        if self._process:
            stop(self._process, kill, self._QUIT)
            self._process = None

    def kill(self) -> None:
        """Kill it (-9), as a crash would."""
        self.stop(kill=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


def start(command: Sequence[str], log: Path, env: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
    """Start a server in a session of its own; on Linux it dies with the thread that started it."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=log.parent,
            env={**os.environ, **(env or {})},
            start_new_session=True,
            preexec_fn=_die_with_parent if sys.platform == "linux" else None,
        )


def stop(process: subprocess.Popen[bytes], kill: bool = False, quit_signal: signal.Signals = signal.SIGTERM) -> None:
    """End a server that `start` gave, by its pid; a second call does nothing."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL) if kill else process.send_signal(quit_signal)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(STOP_SECONDS)


def wait_until(holds: Callable[[], bool], what: str, seconds: float = START_SECONDS) -> None:
    """Wait for a condition, with a bound.

    Raises:
        TimeoutError: It did not come to hold in time.
    """
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {seconds:g} s")
        time.sleep(0.02)


def wait_for_port(
    process: subprocess.Popen[bytes], port: int, log: Path, seconds: float = START_SECONDS, host: str = "127.0.0.1"
) -> None:
    """Wait until a server answers on its port.

    Raises:
        RuntimeError: The server ended instead; with the last lines of its log.
    """

    def answers() -> bool:
        if process.poll() is not None:
            lines = log.read_text(errors="replace").splitlines()
            raise RuntimeError(f"the server ended with {process.returncode}:\n" + "\n".join(lines[-20:]))
        with socket.socket() as probe:
            probe.settimeout(1)
            return probe.connect_ex((host, port)) == 0

    wait_until(answers, f"port {port} answers", seconds)


def nobody() -> tuple[int, int]:
    """Give the user and group of servers that refuse to run as root."""
    if os.getuid():
        return os.getuid(), os.getgid()
    found = pwd.getpwnam("nobody")
    return found.pw_uid, found.pw_gid


def as_nobody() -> list[str]:
    """Give what a command begins with, so that it does not run as root."""
    if os.getuid():
        return []
    user, group = nobody()
    return ["setpriv", "--reuid", str(user), "--regid", str(group), "--clear-groups"]


def _any_port() -> int:
    return random.SystemRandom().randrange(*_PORTS)


def _claim(port: int) -> bool:
    claim = socket.socket(type=socket.SOCK_DGRAM)
    try:
        claim.bind(("127.0.0.1", port))
        for each in (port, port + 10_000):
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", each))
    except OSError:
        claim.close()
        return False
    _claims.append(claim)
    return True


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
