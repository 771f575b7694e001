"""Warnings about passwords that others can read on their way."""

from __future__ import annotations

from urllib.parse import urlsplit

from calve.network.host_names import is_loopback

__all__ = ["exposed"]


def exposed(address: str, insecure: bool = False) -> str:
    """Return the warning that credentials for an HTTP address can be read by others; empty: they are protected.

    Args:
        address: The server's URL.
        insecure: Whether its certificate is not verified.
    """
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
    except ValueError:
        return ""
    if is_loopback(host):
        return ""
    if parts.scheme == "http":
        return f"sends credentials to {host} without TLS, so anybody on the way can read them; use https://"
    return f"sends credentials to {host} without checking who it is; set its CA and remove insecure" if insecure else ""
