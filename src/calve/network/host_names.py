"""The names by which clients may call a server that only this machine reaches.

A page of another site may give its own name this machine's address (DNS rebinding); its requests still have that name.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from urllib.parse import urlsplit

__all__ = ["host_name", "is_local_name", "is_loopback"]


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def host_name(header: str) -> str:
    """Return the name or address of a `Host` header, without its port."""
    try:
        return (urlsplit(f"//{header}").hostname or "").lower()
    except ValueError:
        return ""


def is_local_name(header: str, address: str, names: Iterable[str] = ()) -> bool:
    """Return whether a request's `Host` fits a server; every name fits one that other machines reach, and no `Host`.

    Args:
        header: The request's `Host`.
        address: Where the server listens.
        names: Further names of this host.
    """
    if not header or not is_loopback(address):
        return True
    name = host_name(header)
    return is_loopback(name) or name in {own_name.lower() for own_name in names}
