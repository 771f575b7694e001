"""Counts connections from the moment that they are accepted, before TLS and before any byte of a request."""

from __future__ import annotations

import enum
import ipaddress
from collections import Counter

from calve.observe.descriptors import is_reserved

__all__ = ["Admission", "Gate"]

_ANSWERED = 32
"""So many connections beyond the limit are told why they are refused; further ones are closed at once."""


class Admission(enum.Enum):
    """What becomes of a connection."""

    SERVED = "served"
    REFUSED = "refused"  # with an answer
    CLOSED = "closed"


class Gate:
    """The limits of all clients, and of each address.

    Args:
        most: The most connections that are served.
        most_per_address: The most of one address, or of one network of IPv6 (/64).
    """

    def __init__(self, most: int, most_per_address: int) -> None:
        self._most = most
        self._most_per_address = most_per_address
        self._served: Counter[str] = Counter()
        self._refused = 0
        self._is_short = False

    @property
    def refusing(self) -> str:
        """Why further clients are refused; empty while they are served."""
        if self._is_short:
            return "the process has too few free file descriptors for more connections"
        is_full = self._served.total() >= self._most
        return f"all {self._most} connections of max_connection_count are open" if is_full else ""

    def enter(self, host: str, descriptor: int) -> Admission:
        """Count a connection, unless it is to be closed at once.

        Args:
            host: The client's address.
            descriptor: The connection's file descriptor.
        """
        self._is_short = is_reserved(descriptor)
        if self._is_short:
            return Admission.CLOSED
        network = _network(host)
        if self._served.total() < self._most and self._served[network] < self._most_per_address:
            self._served[network] += 1
            return Admission.SERVED
        if self._refused >= _ANSWERED:
            return Admission.CLOSED
        self._refused += 1
        return Admission.REFUSED

    def run_short(self) -> None:
        """Record that the system gave no descriptor."""
        self._is_short = True

    def leave(self, host: str, admission: Admission) -> None:
        """Forget a connection that was counted."""
        self._is_short = False
        if admission is Admission.REFUSED:
            self._refused -= 1
            return
        network = _network(host)
        self._served[network] -= 1
        if not self._served[network]:
            del self._served[network]


def _network(host: str) -> str:
    """Return the address; of IPv6 the network that one client usually has whole."""
    address = ipaddress.ip_address(host.partition("%")[0])
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    return str(address.ipv4_mapped or int(address) >> 64)
