"""Keeps pages of other sites from sending events: a browser lets any page send a form to any address it reaches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from calve.network.host_names import is_local_name
from calve.sources.http.message import Response

__all__ = ["Browsers"]

_PREFLIGHT = (
    ("access-control-allow-methods", "POST"),
    ("access-control-allow-headers", "authorization, content-encoding, content-type, idempotency-key"),
    ("access-control-max-age", "600"),
)


class Browsers:
    """The pages and names from which a source takes events.

    Args:
        address: Where it listens.
        origins: Pages of other sites that may send, as `https://shop.example.com`.
        names: Names of this host that clients may use, beside those of loopback.
    """

    def __init__(self, address: str, origins: Sequence[str], names: Sequence[str]) -> None:
        self._address = address
        self._origins = frozenset(origin.rstrip("/").lower() for origin in origins)
        self._names = names

    def refusal(self, headers: Mapping[bytes, bytes]) -> Response | None:
        """Return why a request is refused by its head, or None; programs send none of what is checked but `Host`."""
        host, origin, site = (_text(headers, name) for name in (b"host", b"origin", b"sec-fetch-site"))
        if not is_local_name(host, self._address, self._names):
            return Response(403, "This host has another name; see allowed_hosts.")
        if self._is_listed(origin):
            return None
        is_own = not origin or urlsplit(origin).netloc.lower() == host.lower()
        if is_own and site in ("", "same-origin", "none"):
            return None
        return Response(403, "Pages of this site may not send events; see allowed_origins.")

    def preflight(self, headers: Mapping[bytes, bytes]) -> Response | None:
        """Return the answer to a browser that asks whether a page may send; None for others."""
        return Response(204, headers=_PREFLIGHT) if self._is_listed(_text(headers, b"origin")) else None

    def headers(self, headers: Mapping[bytes, bytes]) -> tuple[tuple[str, str], ...]:
        """Return the headers that let a page read the answer to its request."""
        origin = _text(headers, b"origin")
        return (("access-control-allow-origin", origin), ("vary", "origin")) if self._is_listed(origin) else ()

    def _is_listed(self, origin: str) -> bool:
        return origin.lower() in self._origins


def _text(headers: Mapping[bytes, bytes], name: bytes) -> str:
    return headers.get(name, b"").decode("latin-1").strip()
