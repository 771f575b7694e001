"""The files in which a pipeline remembers the keys of events that have passed, as its ledger names them."""

from __future__ import annotations

import msgspec

__all__ = ["FOLDER", "KeyFile"]

FOLDER = "seen"
"""Their folder in the state of a pipeline."""


class KeyFile(msgspec.Struct, frozen=True):
    """One immutable file of remembered keys.

    Attributes:
        name: Its name in the folder.
        keys: How many keys it has.
        newest: When the last of them was seen, in tenths of a second since the epoch.
    """

    name: str
    keys: int
    newest: int
