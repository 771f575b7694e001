"""Who may see the pages and act: names of this host, a password, sessions, and proofs that a form is our own."""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

from calve.network.host_names import host_name, is_loopback

__all__ = ["COOKIE", "FIRST", "VARIABLE", "AccessRules", "Session", "is_loopback"]

COOKIE = "calve_session"
FIRST = "/open/"
VARIABLE = "CALVE_DASHBOARD_PASSWORD"
"""The environment variable with the password."""
_LASTS_SECONDS = 12 * 3600
_MOST_SESSIONS = 100
_MOST_FAILURES, _FAILURE_SECONDS = 5, 60.0
"""Wrong passwords, from anywhere, after which all must wait."""


@dataclass(frozen=True)
class Session:
    """A browser that knows the password.

    Attributes:
        token: The value of its cookie.
        form: The proof in its forms; other sites cannot read it.
        until: When it ends, in monotonic seconds.
    """

    token: str
    form: str
    until: float


@dataclass
class AccessRules:
    """The rules for requests. Thread-safe.

    Attributes:
        password: Empty: nobody may act.
        host: The address on which the server listens.
        names: Further names of this host.
        ticket: What a browser needs in its first address if there is no password; empty: everybody may read.
        clock: Monotonic seconds.
    """

    password: str = ""
    host: str = "127.0.0.1"
    names: Iterable[str] = ()
    ticket: str = field(default="", repr=False)
    clock: Callable[[], float] = time.monotonic
    _sessions: dict[str, Session] = field(default_factory=dict, init=False)
    _failures: deque[float] = field(default_factory=deque, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def knows_host(self, header: str) -> bool:
        """Return whether a request's `Host` is a name of this server.

        A page of another site may give its own name this server's address (DNS rebinding); its requests still have that
        name. An address cannot be given to anybody else.
        """
        name = host_name(header)
        if name in {"localhost", self.host.lower(), *(own_name.lower() for own_name in self.names)}:
            return True
        try:
            return ipaddress.ip_address(name).is_loopback or not is_loopback(self.host)
        except ValueError:
            return not is_loopback(self.host) and name == socket.gethostname().lower()

    def is_same_site(self, host: str, origin: str, fetch_site: str) -> bool:
        """Return whether a form was sent by a page of this server, as the browser says it."""
        if fetch_site and fetch_site not in ("same-origin", "none"):
            return False
        return not origin or urlsplit(origin).netloc.lower() == host.lower()

    def session(self, cookies: str) -> Session | None:
        """Return the session of a request's cookies."""
        try:
            morsel = SimpleCookie(cookies).get(COOKIE)
        except CookieError:
            return None
        with self._lock:
            session = self._sessions.get(morsel.value) if morsel else None
            return session if session and session.until > self.clock() else None

    def must_wait(self) -> bool:
        """Return whether there were too many wrong passwords in the last minute."""
        with self._lock:
            while self._failures and self._failures[0] <= self.clock() - _FAILURE_SECONDS:
                self._failures.popleft()
            return len(self._failures) >= _MOST_FAILURES

    def log_in(self, password: str) -> Session | None:
        """Begin a session; None if the password is wrong, or after too many wrong ones."""
        if not self.password or self.must_wait():
            return None
        if not hmac.compare_digest(password.encode(), self.password.encode()):
            with self._lock:
                self._failures.append(self.clock())
            return None
        return self._begin()

    def admit(self, path: str) -> Session | None:
        """Begin a session by the first address; None if its ticket is wrong."""
        is_right = bool(self.ticket) and hmac.compare_digest(path.encode(), self.first_path.encode())
        return self._begin() if is_right else None

    @property
    def first_path(self) -> str:
        """The path that a browser opens first."""
        return f"{FIRST}{self.ticket}" if self.ticket else "/"

    @property
    def is_open(self) -> bool:
        """Whether everybody may read."""
        return not (self.password or self.ticket)

    def _begin(self) -> Session:
        with self._lock:
            while len(self._sessions) >= _MOST_SESSIONS:
                del self._sessions[next(iter(self._sessions))]
            session = Session(secrets.token_urlsafe(32), secrets.token_urlsafe(32), self.clock() + _LASTS_SECONDS)
            self._sessions[session.token] = session
            return session

    def log_out(self, session: Session) -> None:
        """End a session."""
        with self._lock:
            self._sessions.pop(session.token, None)
