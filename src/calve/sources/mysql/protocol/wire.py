"""A client of the protocol of MySQL and MariaDB: queries with texts, and the stream of the binary log."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from calve.compiled import mysql as core
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
from calve.sources.mysql.protocol.authentication import CACHING_SHA2, NATIVE, SHA256, encrypted, proof

__all__ = ["NOT_TRUSTED", "MysqlConnection", "ResultColumn", "Row", "connect", "read_length"]

Row = list[str | None]
"""The values of a row as text."""
NOT_TRUSTED = "1045"
"""The code of an error of a session that is not authorized."""
_UTF8MB4 = 45
_LONGEST = 0xFFFFFF
_MOST_PACKET = (1 << 30) + (1 << 20)
"""`max_allowed_packet` is 1 GB at most."""
_HEAD_BYTES = 4
_QUERY, _QUIT, _DUMP, _PREPARE, _EXECUTE, _DUMP_GTID = 3, 1, 18, 22, 23, 30
_OK, _ERROR, _EOF, _MORE, _NULL, _LOCAL_FILE = 0, 0xFF, 0xFE, 1, 0xFB, 0xFB
_TLS = 0x800
_ABILITIES = 0x1 | 0x4 | 0x200 | 0x2000 | 0x8000 | 0x8_0000 | 0x10_0000 | 0x20_0000
"""Long passwords and flags, protocol 4.1, transactions, plugins of authentication, attributes of the session."""
_FULL_PROOF, _FAST_PROOF_TAKEN = b"\4", b"\3"
_SESSION = "SET time_zone = '+00:00', sql_mode = '', net_write_timeout = 3600, wait_timeout = 86400"
_NAMES, _COLUMN = 6, struct.Struct("<3xIBHB")
"""What describes a column: names, then its character set, length, type, flags and digits."""
_REST = Rest(1 << 13, 0.001)
"""Less than the 16 kB that MySQL sends at a time: it sends no more before these are received."""
_DUMP_IS_OVER = 1
"""The flag of a dump that ends where the log ends."""


class ResultColumn(NamedTuple):
    """A column of a result: its type in the protocol, its length, and the digits of its fraction."""

    length: int
    kind: int
    flags: int
    digits: int


def connect(address: Address, name: str) -> MysqlConnection:
    """Open a session.

    Args:
        address: Where, and as whom.
        name: The `program_name`, which the server shows.

    Raises:
        ClosedError: The server cannot be reached.
        ServerError: It refuses the session.
    """

    def begin(channel: Channel) -> MysqlConnection:
        connection = MysqlConnection(channel)
        connection.begin(address, name)
        return connection

    return opened(address, begin, NOT_TRUSTED)


class MysqlConnection:
    """One session; used by one thread.

    Attributes:
        version: What the server says, e.g. `8.0.15` or `11.4.5-MariaDB`.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._ready: deque[bytes] = deque()
        self._number = 0
        self.version = ""

    @property
    def is_mariadb(self) -> bool:
        """Whether the server is MariaDB."""
        return "mariadb" in self.version.lower()

    def begin(self, address: Address, name: str) -> None:
        """Authenticate, and set up the session.

        Raises:
            ClosedError: The server closed the connection.
            ServerError: It refuses the session.
        """
        plugin, nonce, abilities = self._greeting(self._packet())
        asked = _ABILITIES
        if address.tls and abilities & _TLS:
            asked |= _TLS
            self._send(_hello(asked))
            self._channel.secure(address)
        elif address.needs_tls:
            raise no_tls()
        plugin = plugin if plugin in (NATIVE, CACHING_SHA2) else CACHING_SHA2
        answer = proof(plugin, address.password, nonce)
        attributes = _texts(b"program_name", name.encode())
        parts = [address.user.encode() + b"\0", _texts(answer), plugin.encode() + b"\0", _texts(attributes)]
        self._send(_hello(asked) + b"".join(parts))
        self._authenticate(address, plugin, nonce)
        self._channel.patient()
        self.query(_SESSION)

    def query(self, sql: str) -> list[Row]:
        """Run a statement; return its rows.

        Raises:
            ClosedError: The server closed the connection.
            ServerError: It refused the statement.
        """
        return [[None if value is None else value.decode() for value in _values(row)] for row in self._rows(sql)]

    def execute(self, sql: str) -> tuple[list[ResultColumn], Iterator[Block]]:
        """Run a SELECT as a prepared statement; return its columns, and its rows as they come, in binary form.

        Raises:
            ClosedError: The server closed the connection.
            ServerError: It refused the statement.
        """
        self._command(_PREPARE, sql.encode())
        statement, count = struct.unpack_from("<IH", self._packet(), 1)
        self._columns(count)
        self._command(_EXECUTE, struct.pack("<IBI", statement, 0, 1))
        return self._columns(read_length(self._packet(), 0)[0]), self._blocks()

    def dump(self, file: str, position: int, server_id: int, waits: bool = True) -> None:
        """Ask for the binary log from a position on; then `receive` works, without `waits` until the end."""
        self._command(_DUMP, struct.pack("<IHI", position, 0 if waits else _DUMP_IS_OVER, server_id) + file.encode())

    def dump_missing(self, gtids: bytes, server_id: int, waits: bool = False) -> None:
        """Ask MySQL for the transactions that a set of GTIDs lacks; then `receive` works, until the end."""
        head = struct.pack("<HIIQI", 0 if waits else _DUMP_IS_OVER, server_id, 0, 4, len(gtids))
        self._command(_DUMP_GTID, head + gtids)

    def receive(self, seconds: float) -> bytes | None:
        """Return the next event of the log, or None if none comes in some time.

        Raises:
            ClosedError: The server has ended the log.
            ServerError: It says why.
        """
        if not self._ready:
            if not self._has_packet():
                self._channel.wait(seconds, _REST)
            self._ready.extend(self._received())
        if self._ready:
            return self._ready.popleft()[1:]
        if not self._has_packet():
            return None
        packet = self._packet()
        if packet[0] == _EOF:
            raise ClosedError("the server has ended the log")
        return packet[1:]

    def close(self) -> None:
        """Close the session; may be called twice."""
        self._channel.close(b"\1\0\0\0" + bytes([_QUIT]))

    def __enter__(self) -> MysqlConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _greeting(self, packet: bytes) -> tuple[str, bytes, int]:
        """Return the server's plugin, its nonce, and what it is able to do."""
        end = packet.index(b"\0", 1)
        self.version = packet[1:end].decode().removeprefix("5.5.5-")
        at = end + 5
        low, high = struct.unpack_from("<H", packet, at + 9)[0], struct.unpack_from("<H", packet, at + 14)[0]
        rest = packet[at + 27 :]
        nonce, _, name = rest.partition(b"\0")
        return name.rstrip(b"\0").decode(), packet[at : at + 8] + nonce, low | high << 16

    def _authenticate(self, address: Address, plugin: str, nonce: bytes) -> None:
        while (packet := self._packet())[0] != _OK:
            body = packet[1:]
            if packet[0] == _EOF:
                name, _, data = body.partition(b"\0")
                plugin, nonce = name.decode(), data.rstrip(b"\0")
                self._send(self._first(plugin, address, nonce))
            elif body == _FULL_PROOF:
                self._send(self._password(address, b"\2"))
            elif body != _FAST_PROOF_TAKEN:
                password = address.password_for(self._channel, "the password, encrypted with a key of its own")
                self._send(_encrypted(password, nonce, body))

    def _first(self, plugin: str, address: Address, nonce: bytes) -> bytes:
        """Return the answer to a plugin that the server asks for."""
        if plugin in (NATIVE, CACHING_SHA2):
            return proof(plugin, address.password, nonce)
        if plugin == SHA256:
            return self._password(address, b"\1")
        supported = ", ".join((CACHING_SHA2, NATIVE, SHA256))
        raise ServerError(
            NOT_TRUSTED, f"the user has the authentication {plugin}, which Calve does not have; it has {supported}"
        )

    def _password(self, address: Address, ask_key: bytes) -> bytes:
        """Return the password for a server with TLS, and what asks one without for its key."""
        password = address.password_for(self._channel, "the password itself")
        return password + b"\0" if self._channel.is_secure else ask_key

    def _rows(self, sql: str) -> Iterator[bytes]:
        """Run a statement; yield its rows as they come."""
        self._command(_QUERY, sql.encode())
        first = self._packet()
        if first[0] == _OK:
            return
        if first[0] == _LOCAL_FILE:
            raise ClosedError("the server asks for a local file")
        self._columns(read_length(first, 0)[0])
        while True:
            yield from self._received()
            if _is_end(packet := self._packet()):
                return
            yield packet

    def _columns(self, count: int) -> list[ResultColumn]:
        """Read the descriptions of so many columns, and the end after them."""
        columns = [_column(self._packet()) for _ in range(count)]
        self._packet()
        return columns

    def _blocks(self) -> Iterator[Block]:
        """Yield the rows of a prepared statement as they come."""
        while True:
            if (block := self._joined()).count:
                yield block
            if _is_end(packet := self._packet()):
                return
            yield Block(packet, struct.pack("<I", len(packet)))

    def _joined(self) -> Block:
        """Take the packets that `_received` would take, joined."""
        joined = core.packets(self._channel.received) if self._has_packet() else None
        if joined is None:
            packets = self._received()
            return Block(b"".join(packets), struct.pack(f"<{len(packets)}I", *map(len, packets)))
        size, data, lengths = joined
        self._channel.skip(size)
        return Block(data, lengths)

    def _command(self, command: int, body: bytes) -> None:
        self._number = 0
        self._send(bytes([command]) + body)

    def _send(self, body: bytes) -> None:
        """Send a packet; a longer one than fits is sent in parts."""
        at = 0
        while True:
            part = body[at : at + _LONGEST]
            self._channel.send(len(part).to_bytes(3, "little") + bytes([self._number & 0xFF]) + part)
            self._number += 1
            at += len(part)
            if len(part) < _LONGEST:
                return

    def _packet(self) -> bytes:
        """Return the next packet.

        Raises:
            ClosedError: The server closed the connection.
            ServerError: The packet is an error.
        """
        whole = b""
        while True:
            head = self._channel.peek(4)
            size, self._number = int.from_bytes(head[:3], "little"), head[3] + 1
            part = self._channel.read(size + 4)[4:]
            whole = whole + part if whole else part
            if len(whole) > _MOST_PACKET:
                raise no_protocol(f"a packet of more than {_MOST_PACKET:,} bytes")
            if size < _LONGEST:
                break
        if not whole:
            raise ClosedError("the server sent an empty packet")
        if whole[0] == _ERROR:
            raise _error(whole)
        return whole

    def _received(self) -> list[bytes]:
        """Take the packets that are completely there, up to one that may be an end, an error or a part."""
        packets: list[bytes] = []
        if not self._has_packet():
            return packets
        data, at = bytes(self._channel.received), 0
        while len(data) - at > _HEAD_BYTES:
            start = at + _HEAD_BYTES
            end = start + int.from_bytes(data[at : at + 3], "little")
            if not start < end <= len(data) or end - start == _LONGEST or data[start] in (_EOF, _ERROR):
                break
            self._number = data[at + 3] + 1
            packets.append(data[start:end])
            at = end
        self._channel.skip(at)
        return packets

    def _has_packet(self) -> bool:
        channel = self._channel
        return channel.has(4) and channel.has(4 + int.from_bytes(channel.peek(3), "little"))


def read_length(data: bytes, at: int) -> tuple[int, int]:
    """Read an integer of variable length; return it, and where it ends."""
    first = data[at]
    if first < 251:
        return first, at + 1
    size = {252: 2, 253: 3, 254: 8}[first]
    return int.from_bytes(data[at + 1 : at + 1 + size], "little"), at + 1 + size


def _column(packet: bytes) -> ResultColumn:
    at = 0
    for _ in range(_NAMES):
        size, at = read_length(packet, at)
        at += size
    return ResultColumn(*_COLUMN.unpack_from(packet, at))


def _hello(abilities: int) -> bytes:
    return struct.pack("<IIB23x", abilities, _LONGEST, _UTF8MB4)


def _texts(*texts: bytes) -> bytes:
    """Return texts, each with its length before it; all are short."""
    return b"".join(
        (bytes([len(text)]) if len(text) < 251 else b"\xfc" + struct.pack("<H", len(text))) + text for text in texts
    )


def _values(row: bytes) -> list[bytes | None]:
    values: list[bytes | None] = []
    at = 0
    while at < len(row):
        if row[at] == _NULL:
            values.append(None)
            at += 1
        else:
            size, at = read_length(row, at)
            values.append(row[at : at + size])
            at += size
    return values


def _is_end(packet: bytes) -> bool:
    return packet[0] == _EOF and len(packet) < 9


def _encrypted(password: bytes, nonce: bytes, key: bytes) -> bytes:
    try:
        return encrypted(password, nonce, key)
    except ValueError as error:
        raise ServerError(NOT_TRUSTED, f"the password cannot be sent: {error}") from error


def _error(packet: bytes) -> ServerError:
    code = str(int.from_bytes(packet[1:3], "little"))
    reason = packet[9:] if packet[3:4] == b"#" else packet[3:]
    text = reason.decode("utf-8", "replace")
    return ServerError(code, text, f"{text} (error {code})")
