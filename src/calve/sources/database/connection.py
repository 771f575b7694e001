"""The connection to a database server: a socket with a buffer, TLS, and the errors of sessions."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

__all__ = ["Address", "Channel", "ClosedError", "Rest", "ServerError", "TrustError", "no_protocol", "no_tls", "opened"]

Session = TypeVar("Session")

_RECEIVED_BYTES = 1 << 18
_LATE = "no session has begun in the time of connect_timeout"
_MOST_BYTES, _MOST_BEGINNING_BYTES = (1 << 30) + (1 << 20), 1 << 20
"""The largest message: the servers allow values of 1 GB; and before a session has begun."""
_RECORD_BYTES = 1 << 14
"""The most that a record of TLS has; one is received at a time, and a server may send each message as one."""
_OTHER_NAMES, _EXPIRED = (62, 64), 10
"""OpenSSL's numbers of errors: `X509_V_ERR_HOSTNAME_MISMATCH`, `…_IP_ADDRESS_MISMATCH`, `…_CERT_HAS_EXPIRED`."""
_UNPROTECTED = "set ssl_mode: prefer if nobody else can read or answer on the way to it"
_KEEPALIVE = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))


class ServerError(Exception):
    """The server refused. Internal: the caller knows what the code means.

    Args:
        code: What the server calls the error, e.g. a SQLSTATE.
        reason: Its message.
        shown: The complete text.
    """

    def __init__(self, code: str, reason: str, message: str = "") -> None:
        self.code = code
        self.reason = reason
        super().__init__(message or reason)


class TrustError(ServerError):
    """The server did not prove who it is. Internal.

    Args:
        reason: Why, as the end of a sentence.
        hint: What to do.
    """

    def __init__(self, reason: str, hint: str) -> None:
        super().__init__("", reason)
        self.hint = hint


def no_tls() -> TrustError:
    """Return the error of a server without TLS."""
    return TrustError("it has no TLS, which ssl_mode requires", f"Turn TLS on in the server, or {_UNPROTECTED}")


def no_protocol(what: str) -> TrustError:
    """Return the error of a server that sends what no database sends."""
    return TrustError(f"it sends {what}", "Check `host` and `port`: something else may answer there")


class ClosedError(Exception):
    """The server cannot be reached, or has closed the connection. Internal: the caller tries again."""


class Rest(NamedTuple):
    """How long more is waited for after little was received.

    A server that sends message by message would wake the reader, and let it work, for each of them.

    Attributes:
        bytes: Less than so much is little.
        seconds: How long.
    """

    bytes: int
    seconds: float


@dataclass(frozen=True)
class Address:
    """Where and as whom to connect.

    Attributes:
        tls: The context of TLS; None: without it.
        needs_tls: Whether a server without TLS is refused.
        gives_password: Whether a server that is not verified may get the password itself.
    """

    host: str
    port: int
    database: str
    user: str
    password: str = field(repr=False)
    tls: ssl.SSLContext | None = None
    needs_tls: bool = False
    timeout_seconds: float = 10.0
    gives_password: bool = False

    def password_for(self, channel: Channel, form: str) -> bytes:
        """Return the password for a server that asks for it, and not only for a proof.

        Args:
            channel: The connection.
            form: What the server asks for.

        Raises:
            TrustError: The server is not verified, so it may be anybody.
        """
        if not self.password or channel.is_verified or self.gives_password:
            return self.password.encode()
        raise TrustError(
            f"it asks for {form}, and has not proven who it is",
            "Set ssl_mode: verify-full, with ssl_root_certificate_file if the server's certificate is from a CA of "
            "your own; or allow_cleartext_password: true if nobody else can answer in its name",
        )

    def open(self) -> Channel:
        """Open a connection; its answers are waited for until `Channel.patient`.

        Raises:
            ClosedError: The server cannot be reached.
        """
        try:
            raw = socket.create_connection((self.host, self.port), self.timeout_seconds)
        except OSError as error:
            raise ClosedError(f"no connection to {self.host}:{self.port}: {error.strerror or error}") from error
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _KEEPALIVE:
            if hasattr(socket, option):
                raw.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
        return Channel(raw)


class Channel:
    """A socket with a buffer of what was received; used by one thread."""

    def __init__(self, stream: socket.socket) -> None:
        self._stream = stream
        self._buffer = bytearray()
        self._at = 0
        self._was_little = False
        self._most = _MOST_BEGINNING_BYTES
        self._is_cut = False

    def secure(self, address: Address) -> None:
        """Go on with TLS.

        Raises:
            OSError: TLS fails.
            TrustError: Something came before it, which nothing protects.
        """
        assert address.tls is not None
        if self.has(1):
            raise TrustError(
                "it sent more than its consent before TLS began",
                "Find out what answers there: it may not be the server",
            )
        self._stream = address.tls.wrap_socket(self._stream, server_hostname=address.host)

    @property
    def is_secure(self) -> bool:
        """Whether it has TLS."""
        return isinstance(self._stream, ssl.SSLSocket)

    @property
    def is_verified(self) -> bool:
        """Whether the server has proven by a certificate who it is."""
        return isinstance(self._stream, ssl.SSLSocket) and self._stream.context.verify_mode is ssl.CERT_REQUIRED

    def cut(self) -> None:
        """End the connection, while another thread waits for a session."""
        self._is_cut = True
        with contextlib.suppress(OSError):
            self._stream.shutdown(socket.SHUT_RDWR)

    def patient(self) -> None:
        """Wait for answers without a limit from now on, and for messages of any size that servers allow."""
        self._most = _MOST_BYTES
        self._stream.settimeout(None)

    def send(self, data: bytes) -> None:
        """Send bytes.

        Raises:
            ClosedError: The connection is lost.
        """
        try:
            self._stream.sendall(data)
        except OSError as error:
            raise _lost(error) from error

    def peek(self, count: int) -> bytes:
        """Return the next bytes, which stay.

        Raises:
            ClosedError: The connection is lost.
            TrustError: They are more than any message has.
        """
        if not 0 <= count <= self._most:
            raise no_protocol(f"a message of {count:,} bytes")
        while not self.has(count):
            self.more()
        return bytes(memoryview(self._buffer)[self._at : self._at + count])

    def read(self, count: int) -> bytes:
        """Return the next bytes, and remove them.

        Raises:
            ClosedError: The connection is lost.
        """
        data = self.peek(count)
        self._at += count
        return data

    def has(self, count: int) -> bool:
        """Return whether so many bytes were received."""
        return len(self._buffer) - self._at >= count

    @property
    def received(self) -> memoryview:
        """What was received and not taken yet; to be given up before more is received."""
        return memoryview(self._buffer)[self._at :]

    def more(self) -> int:
        """Wait for more, and return how many bytes came.

        Raises:
            ClosedError: The connection is lost.
        """
        try:
            return self._fill()
        except OSError as error:
            raise _lost(error) from error

    def skip(self, count: int) -> None:
        """Remove bytes that were received."""
        self._at += count

    def wait(self, seconds: float, rest: Rest) -> None:
        """Receive what comes in some time, or nothing; after a rest if it was little the last time.

        Raises:
            ClosedError: The connection is lost.
        """
        if self._was_little:
            time.sleep(rest.seconds)
        self._stream.settimeout(max(seconds, 0.000_1))
        self._was_little = False
        try:
            self._was_little = self._fill() < rest.bytes
        except (TimeoutError, ssl.SSLWantReadError):
            return
        except OSError as error:
            raise _lost(error) from error
        finally:
            self._stream.settimeout(None)

    def close(self, farewell: bytes = b"") -> None:
        """Close the connection; may be called twice."""
        with contextlib.suppress(OSError):
            if farewell:
                self._stream.sendall(farewell)
        self._stream.close()

    def _fill(self) -> int:
        data = self._stream.recv(_RECEIVED_BYTES)
        if not data:
            raise ClosedError(_LATE if self._is_cut else "the server has closed the connection")
        if self._at:
            del self._buffer[: self._at]
            self._at = 0
        self._buffer += data
        return len(data) + (self._more() if self.is_secure else 0)

    def _more(self) -> int:
        """Take the other records of TLS that have come; return how much they are."""
        seconds, size = self._stream.gettimeout(), 0
        self._stream.settimeout(0)
        try:
            while size < _RECEIVED_BYTES and (data := self._stream.recv(_RECORD_BYTES)):
                self._buffer += data
                size += len(data)
        except ssl.SSLWantReadError:
            pass
        finally:
            self._stream.settimeout(seconds)
        return size


def opened(address: Address, begin: Callable[[Channel], Session], code: str, *distrust: type[Exception]) -> Session:
    """Open a connection and begin a session on it; of one that fails nothing is left open.

    Args:
        address: Where.
        begin: Begins the session.
        code: The server's code for a session that is not authorized.
        distrust: Errors of `begin` because of a server that does not know the password.

    Raises:
        ClosedError: The server cannot be reached.
        ServerError: It refuses the session, or is not trusted.
    """
    channel = address.open()
    limit = threading.Timer(address.timeout_seconds, channel.cut)  # for those who send a byte now and then
    limit.daemon = True
    limit.start()
    try:
        return begin(channel)
    except ssl.SSLCertVerificationError as error:
        channel.close()
        raise _untrusted(error, address) from error
    except distrust as error:
        channel.close()
        raise ServerError(code, f"the server is not trusted: {error}") from error
    except (struct.error, IndexError, KeyError, ValueError) as error:
        channel.close()
        raise no_protocol(f"what cannot be understood ({type(error).__name__})") from error
    except OSError as error:
        channel.close()
        raise ClosedError(f"no session at {address.host}:{address.port}: {error}") from error
    except BaseException:
        channel.close()
        raise
    finally:
        limit.cancel()


def _untrusted(error: ssl.SSLCertVerificationError, address: Address) -> TrustError:
    """Return why a certificate is not accepted, and what helps."""
    if error.verify_code in _OTHER_NAMES:
        names = f"Set `host` to a name in the certificate; with ssl_mode: verify-ca {address.host} need not be in it"
        return TrustError(f"its certificate is not for {address.host}", names)
    if error.verify_code == _EXPIRED:
        return TrustError("its certificate has expired", "Let the server have a new one")
    hint = (
        "Set ssl_root_certificate_file to the certificate of the authority (CA) that signed the server's; "
        "ssl_mode: require encrypts without checking the server"
    )
    return TrustError(f"its certificate is not signed by a known authority ({error.verify_message})", hint)


def _lost(error: OSError) -> ClosedError:
    return ClosedError(f"the connection was lost: {error.strerror or error}")
