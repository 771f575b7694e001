"""A client of PostgreSQL's protocol, version 3: simple queries, COPY to the client, and replication.

Only text is exchanged. Every session has settings under which texts are exact and the same everywhere.
"""

from __future__ import annotations

import hashlib
import struct
import time
from collections import deque
from collections.abc import Iterable, Iterator

import pyarrow as pa

from calve.compiled import postgres as core
from calve.compiled.postgres import Messages
from calve.sources.database.change_buffer import Block
from calve.sources.database.connection import (
    Address,
    Channel,
    ClosedError,
    Rest,
    ServerError,
    no_protocol,
    no_tls,
    opened,
)
from calve.sources.database.pieces import FIRST_BYTES, MOST_BYTES
from calve.sources.postgres.protocol.copy_text import columns_of
from calve.sources.postgres.protocol.scram import MECHANISM, ScramError, ScramExchange

__all__ = ["NOT_TRUSTED", "PostgresConnection", "Row", "connect"]

Row = list[str | None]
"""The values of a row as text."""
_SESSION = {
    "client_encoding": "UTF8",
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "iso_8601",
    "TimeZone": "UTC",
    "extra_float_digits": "3",
    "bytea_output": "hex",
    "xmloption": "content",
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "row_security": "off",
    "synchronize_seqscans": "off",
    "max_parallel_workers_per_gather": "0",
}
"""`row_security: off` turns rows that a policy would hide into an error. The last two keep the order of pages."""
NOT_TRUSTED = "28000"
"""PostgreSQL's own code for a session that is not authorized."""
_PROTOCOL = 3 << 16
_SSL_REQUEST = (1234 << 16) + 5679
_HEAD = struct.Struct(">cI")
_UINT, _USHORT = struct.Struct(">I"), struct.Struct(">H")
_REST = Rest(1 << 18, 0.02)
"""PostgreSQL sends each change by itself, which is most of its work; the kernel joins them while nobody reads."""
_READY = b"Z\0\0\0\5"
"""How the last message of an answer begins; a byte follows."""
_LITTLE_COPIED_BYTES, _COPIED_REST_SECONDS = 1 << 16, 0.0005
"""A server that sends 8 kB at a time would wake the reader for each of them."""
_OK, _CLEARTEXT, _MD5, _SASL, _SASL_CONTINUE, _SASL_FINAL = 0, 3, 5, 10, 11, 12


def connect(address: Address, name: str, replication: bool = False) -> PostgresConnection:
    """Open a session.

    Args:
        address: Where, and as whom.
        name: The `application_name`, which the server shows.
        replication: Whether the session also takes the commands of replication.

    Raises:
        ClosedError: The server cannot be reached.
        ServerError: It refuses the session.
    """

    def begin(channel: Channel) -> PostgresConnection:
        _secure(channel, address)
        connection = PostgresConnection(channel)
        connection.begin(address, name, replication)
        return connection

    return opened(address, begin, NOT_TRUSTED, ScramError)


def _secure(channel: Channel, address: Address) -> None:
    if address.tls is None:
        return
    channel.send(struct.pack(">II", 8, _SSL_REQUEST))
    if channel.read(1) == b"S":
        channel.secure(address)
    elif address.needs_tls:
        raise no_tls()


class PostgresConnection:
    """One session; used by one thread.

    Attributes:
        parameters: What the server told of itself, such as `server_version`.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._ready: deque[bytes | Block] = deque()
        self.parameters: dict[str, str] = {}

    def begin(self, address: Address, name: str, replication: bool) -> None:
        """Authenticate, and set up the session.

        Raises:
            ClosedError: The server closed the connection.
            ScramError: The server does not know the password.
            ServerError: It refuses the session.
        """
        values = {"user": address.user, "database": address.database, "application_name": name, **_SESSION}
        if replication:
            values["replication"] = "database"
        text = b"".join(part.encode() + b"\0" for pair in values.items() for part in pair)
        body = _UINT.pack(_PROTOCOL) + text + b"\0"
        self._channel.send(_UINT.pack(len(body) + 4) + body)
        scram = ScramExchange(address.password)
        while (kind := (message := self._message())[0]) != b"Z":
            if kind == b"R":
                self._authenticate(message[1], address, scram)
            elif kind == b"S":
                key, value = message[1].split(b"\0")[:2]
                self.parameters[key.decode()] = value.decode()
        self._channel.patient()

    def query(self, sql: str) -> list[Row]:
        """Run one or more statements; return the rows of the last one that has some.

        Raises:
            ClosedError: The server closed the connection.
            ServerError: It refused a statement.
        """
        self._send(b"Q", sql.encode() + b"\0")
        rows: list[Row] = []
        failed: ServerError | None = None
        while True:
            kind, body = self._message(raises=False)
            if kind == b"T":
                rows = []
            elif kind == b"D":
                rows.append(_row(body))
            elif kind == b"E":
                failed = failed or _error(body)
            elif kind == b"Z":
                break
        if failed:
            raise failed
        return rows

    def copy_out(self, sql: str, count: int) -> Iterator[list[pa.Array]]:
        """Run a COPY to the client in text format; yield its rows as columns of texts, in ever larger pieces.

        Args:
            sql: The statement.
            count: The number of columns.

        Raises:
            ClosedError: The server closed the connection.
            ServerError: It refused.
        """
        self._send(b"Q", sql.encode() + b"\0")
        enough = FIRST_BYTES
        while True:
            if not self._has_message():
                self._receive_copied(enough)
            elif self._channel.peek(1) == b"d":
                yield self._copied(count)
                enough = min(2 * enough, MOST_BYTES)
            else:
                kind, body = self._message()
                if kind == b"d":  # a row after a notice, which is skipped
                    yield columns_of(body, count)
                elif kind == b"Z":
                    return

    def start_replication(self, sql: str) -> None:
        """Run START_REPLICATION; then `receive` and `send` work.

        Raises:
            ClosedError: The server closed the connection.
            ServerError: It refused.
        """
        self._send(b"Q", sql.encode() + b"\0")
        while self._message()[0] != b"W":
            pass

    def receive(self, seconds: float) -> bytes | Block | None:
        """Return the next message of replication, or changes that follow each other; None if none comes in some time.

        Raises:
            ClosedError: The server has ended replication.
            ServerError: It says why.
        """
        if not self._ready:
            if not self._has_message():
                self._channel.wait(seconds, _REST)
            self._ready.extend(self._replicated())
        if self._ready:
            return self._ready.popleft()
        if not self._has_message():
            return None
        kind, body = self._message()
        if kind == b"c":
            raise ClosedError("the server has ended replication")
        return body if kind == b"d" else None

    def send(self, message: bytes) -> None:
        """Send a message of replication.

        Raises:
            ClosedError: The connection is lost.
        """
        self._send(b"d", message)

    def close(self) -> None:
        """Close the session; may be called twice."""
        self._channel.close(_HEAD.pack(b"X", 4))

    def __enter__(self) -> PostgresConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _authenticate(self, body: bytes, address: Address, scram: ScramExchange) -> None:
        kind, rest = _UINT.unpack_from(body)[0], body[4:]
        if kind == _CLEARTEXT:
            self._send(b"p", address.password_for(self._channel, "the password itself") + b"\0")
        elif kind == _MD5:
            password = address.password_for(self._channel, "an MD5 digest, from which the password can be found out")
            inner = hashlib.md5(password + address.user.encode()).hexdigest().encode()
            self._send(b"p", b"md5" + hashlib.md5(inner + rest).hexdigest().encode() + b"\0")
        elif kind == _SASL and MECHANISM.encode() in rest.split(b"\0"):
            first = scram.first
            self._send(b"p", MECHANISM.encode() + b"\0" + _UINT.pack(len(first)) + first)
        elif kind == _SASL_CONTINUE:
            self._send(b"p", scram.final(rest))
        elif kind == _SASL_FINAL:
            scram.check(rest)
        elif kind == _OK:
            scram.require_check()
        else:
            raise ServerError(NOT_TRUSTED, f"the server wants a way of authentication ({kind}) unknown to Calve")

    def _send(self, kind: bytes, body: bytes) -> None:
        self._channel.send(_HEAD.pack(kind, len(body) + 4) + body)

    def _message(self, raises: bool = True) -> tuple[bytes, bytes]:
        """Return the next message that is not a notice."""
        while True:
            kind, length = _HEAD.unpack(self._channel.peek(_HEAD.size))
            if length < _UINT.size:
                raise no_protocol(f"a message of {length} bytes")
            body = self._channel.read(length + 1)[_HEAD.size :]
            if kind == b"E" and raises:
                raise _error(body)
            if kind not in (b"N", b"A"):
                return kind, body

    def _receive_copied(self, enough: int) -> None:
        """Receive so many bytes, or up to the end of an answer."""
        channel = self._channel
        while True:
            is_little = channel.more() < _LITTLE_COPIED_BYTES
            if channel.has(enough) or channel.received[-len(_READY) - 1 : -1] == _READY:
                return
            if is_little:
                time.sleep(_COPIED_REST_SECONDS)

    def _copied(self, count: int) -> list[pa.Array]:
        """Take the rows of COPY that are completely there."""
        copied = core.copied(self._channel.received, count)
        if copied is None:
            return columns_of(b"".join(self._received()), count)
        self._channel.skip(copied[0])
        return copied[1]

    def _replicated(self) -> Iterable[bytes | Block]:
        """Take the messages of replication that are completely there; the core joins changes."""
        if not self._has_message():
            return ()
        messages = core.messages(self._channel.received)
        if messages is None:
            return self._received()
        self._channel.skip(messages.size_bytes)
        return _pieces(messages)

    def _received(self) -> list[bytes]:
        """Take the data messages that are completely there, up to the first other message."""
        bodies: list[bytes] = []
        if not self._has_message():
            return bodies
        data, at = bytes(self._channel.received), 0
        while data[at : at + 1] == b"d" and len(data) - at >= _HEAD.size:
            end = at + 1 + _UINT.unpack_from(data, at + 1)[0]
            if end > len(data):
                break
            bodies.append(data[at + _HEAD.size : end])
            at = end
        self._channel.skip(at)
        return bodies

    def _has_message(self) -> bool:
        channel = self._channel
        return channel.has(_HEAD.size) and channel.has(_HEAD.unpack(channel.peek(_HEAD.size))[1] + 1)


def _pieces(messages: Messages) -> Iterator[bytes | Block]:
    at = 0
    for piece, count in zip(messages.pieces, messages.counts, strict=True):
        end = at + 4 * count
        yield Block(piece, messages.lengths[at:end]) if count else piece
        at = end


def _row(body: bytes) -> Row:
    row: Row = []
    at = 2
    for _ in range(_USHORT.unpack_from(body)[0]):
        length = _UINT.unpack_from(body, at)[0]
        at += 4
        if length == 0xFFFFFFFF:
            row.append(None)
        else:
            row.append(body[at : at + length].decode())
            at += length
    return row


def _error(body: bytes) -> ServerError:
    parts = [part.decode("utf-8", "replace") for part in body.split(b"\0") if part]
    fields = {part[0]: part[1:] for part in parts}
    code, reason, detail = fields.get("C", ""), fields.get("M", "no reason"), fields.get("D", "")
    return ServerError(code, reason, f"{reason} (SQLSTATE {code})" + (f": {detail}" if detail else ""))
