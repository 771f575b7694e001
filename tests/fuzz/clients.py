"""Connections to the http source: what is sent, in which pieces, how it ends, and which answers came back."""

from __future__ import annotations

import contextlib
import random
import re
import select
import socket
import struct
import time
from dataclasses import dataclass, field

from fuzz.messages import ODD_BYTES, Maker, Message
from kit.running import PATIENCE_SECONDS

ENDINGS = (
    "half",
    "half",
    "half",
    "cut",
    "cut",
    "broken",
    "broken",
    "broken",
    "garbage",
    "huge",
    "reset",
    "close",
    "stall",
)
ANSWER = re.compile(rb"HTTP/1\.1 ([1-5][0-9][0-9]) [A-Za-z -]+\r\n((?:[a-z-]+: [ -~]+\r\n)*)\r\n")
NAMES = {b"date", b"content-type", b"content-length", b"retry-after", b"allow", b"www-authenticate"}
NAMES |= {b"accept-encoding", b"calve-events", b"connection"}
NEEDED = {b"date", b"content-type", b"content-length"}


@dataclass
class Script:
    """What one client does.

    Attributes:
        messages: Requests that are sent whole, one after the other.
        rest: Bytes behind them, of which nobody knows what they are to the source.
        after: Good requests behind those bytes.
        ending: How the client ends; see `ENDINGS`.
        pieces: Sizes of what is sent at once.
        partial: The name of the request that is not sent to its end; empty: there is none.
    """

    messages: list[Message]
    rest: bytes
    after: list[Message]
    ending: str
    pieces: list[int]
    partial: str = ""

    @property
    def data(self) -> bytes:
        """All that is sent."""
        return b"".join([*(each.data for each in self.messages), self.rest, *(each.data for each in self.after)])

    @property
    def is_cut(self) -> bool:
        """Whether the client does not wait for all answers."""
        return self.ending in ("reset", "close")


@dataclass(frozen=True)
class Answer:
    """One answer."""

    status: int
    closes: bool
    text: bytes


@dataclass
class Talk:
    """What a client got back.

    Attributes:
        lost: The other side closed the connection with a reset, which may destroy answers.
        hung: The other side did not end the connection.
        wrong: Why the bytes are no answers; empty: they are.
    """

    received: bytes = b""
    lost: bool = False
    hung: bool = False
    wrong: str = ""
    answers: list[Answer] = field(default_factory=list)


def script(rnd: random.Random, maker: Maker, number: int, stalls: bool) -> Script:
    """Make what one client of a round does: always the same for the same random numbers."""
    ending = rnd.choice(ENDINGS)
    ending = "half" if ending == "stall" and not stalls else ending
    messages: list[Message] = []
    client = f"c{number}x{rnd.randrange(1 << 32):08x}"  # changed bytes make no other client's name of it
    for index in range(rnd.choice([0, 1, 2, 3, 6, 30])):
        name = f"{client}r{index}"
        made = rnd.choices([maker.good, maker.refused, maker.health], [8, 2, 1])[0](name)
        messages += [made] * (rnd.choice([1, 2]) if made.key else 1)
    last = maker.good(f"{client}last")
    rest, after = b"", list[Message]()
    if ending == "cut":
        rest = last.data[: rnd.randrange(len(last.data))]
    elif ending == "stall":
        rest = last.data[: rnd.randrange(1, len(last.data))]
    elif ending == "broken":
        rest = maker.mutated(rnd.choice([last, last, maker.refused(last.name)]))
        after = [maker.good(f"{client}after{index}") for index in range(rnd.choice([0, 0, 1, 3]))]
    elif ending == "garbage":
        rest = rnd.choice(
            [rnd.randbytes(200), b"".join(rnd.choices(ODD_BYTES, k=50)), b"\x16\x03\x01\x02\x00\x01" * 20]
        )
    elif ending == "huge":
        messages.append(maker.huge(f"{client}huge"))
    pieces = [rnd.choice([1, 3, 20, 200, 5000, 1 << 20]) for _ in range(20)]
    partial = last.name if ending in ("cut", "stall") else ""
    return Script(messages, rest, after, ending, pieces, partial)


def talk(address: tuple[str, int], plan: Script) -> Talk:
    """Send all of a script, reading all the time, and return what came back."""
    got = Talk()
    end = time.monotonic() + PATIENCE_SECONDS
    with socket.create_connection(address, timeout=PATIENCE_SECONDS) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.setblocking(False)
        try:
            _converse(client, plan, got, end)
        except (ConnectionResetError, BrokenPipeError):
            got.lost = True
            with contextlib.suppress(OSError):
                while part := client.recv(1 << 16):
                    got.received += part
    heads = [each.head for each in plan.messages]
    got.answers, got.wrong = parse(got.received, heads, whole=not (plan.is_cut or got.lost or got.hung))
    return got


def _converse(client: socket.socket, plan: Script, got: Talk, end: float) -> None:
    data, sent, pieces = plan.data, 0, iter(plan.pieces)
    while sent < len(data):
        size = next(pieces, 1 << 20)
        piece = data[sent : sent + size]
        while piece:
            readable, writable, _ = select.select([client], [client], [], 1)
            if readable and (part := client.recv(1 << 16)):
                got.received += part
            if writable:
                count = client.send(piece)
                sent, piece = sent + count, piece[count:]
            if time.monotonic() > end:
                got.hung = True
                return
    if plan.ending == "reset":
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    if plan.is_cut:
        return
    if plan.ending != "stall":
        with contextlib.suppress(OSError):  # the other side has closed
            client.shutdown(socket.SHUT_WR)
    client.setblocking(True)
    client.settimeout(max(end - time.monotonic(), 1))
    try:
        while part := client.recv(1 << 16):
            got.received += part
    except TimeoutError:
        got.hung = True


def parse(data: bytes, heads: list[bool], whole: bool) -> tuple[list[Answer], str]:
    """Split what came back into answers, by the letter; return them, and why the bytes are none."""
    answers: list[Answer] = []
    while data:
        found = ANSWER.match(data)
        if not found:
            return answers, f"no answer: {data[:200]!r}" if whole else ""
        status, data = int(found[1]), data[found.end() :]
        if status == 100:
            continue
        lines = [line.partition(b": ")[::2] for line in found[2].splitlines()]
        headers = dict(lines)
        if len(headers) != len(lines) or not NEEDED <= headers.keys() <= NAMES:
            return answers, f"its headers: {found[0]!r}"
        length = int(headers[b"content-length"])
        is_head = len(answers) < len(heads) and heads[len(answers)]
        text, data = (b"", data) if is_head else (data[:length], data[length:])
        if len(text) < length and not is_head:
            return answers, f"its body is cut: {found[0]!r}" if whole else ""
        answers.append(Answer(status, headers.get(b"connection") == b"close", text))
        if answers[-1].closes and data:
            return answers, f"bytes after the last answer: {data[:200]!r}"
    return answers, ""
