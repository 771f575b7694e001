"""HMAC-SHA-256 of the texts of a column by the compiled core (`core/src/hmac.rs`)."""

from __future__ import annotations

import pyarrow as pa

from calve.compiled.events import call
from calve.compiled.library import load

__all__ = ["hmac_texts"]


def hmac_texts(key: bytes, texts: pa.Array, is_hex: bool) -> pa.Array | None:
    """Return the HMAC of each text, as hexadecimal digits or in Base64; None without the core.

    Args:
        key: The key.
        texts: Binary or string. Null, and what is no UTF-8, becomes null.
        is_hex: How the 32 bytes are written.
    """
    outcome = call("calve_hmac", texts, (pa.string(),), key, len(key), is_hex) if load() else None
    return None if outcome is None else outcome[1][0]
