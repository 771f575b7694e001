"""Leaves credentials out of texts of others: Java, drivers and servers put whole addresses into their errors."""

from __future__ import annotations

import re

__all__ = ["without_credentials"]

_USER = re.compile(r"\b(?!(?:abfs|wasb)s?:)([a-z][a-z0-9+.-]*://)[^/\s@'\"]*@", re.IGNORECASE)
"""Not of Azure's file systems, where the container stands before the `@`."""
_PARAMETER = re.compile(
    r"([?&;](?:[\w.-]*(?:password|passwd|pwd|token|secret|credential|signature|api[_-]?key|access[_-]?key)[\w.-]*|sig)=)"
    r"[^&;\s'\")\]}]+",
    re.IGNORECASE,
)


def without_credentials(text: str) -> str:
    """Return a text whose addresses have no user, and no parameters that are named like a secret."""
    if "://" not in text:
        return text
    return _PARAMETER.sub(r"\1…", _USER.sub(r"\1", text))
