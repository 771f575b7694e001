"""The metadata attributes of the mysql source's events."""

from __future__ import annotations

import pyarrow as pa

from calve.sources.database.attributes import METADATA as SHARED
from calve.sources.database.attributes import OfTransaction

__all__ = ["METADATA", "OWN"]

_FILES = (1 << 24) - 1
"""Before the number of the file is that of the server (`database.BinlogPosition`)."""
OWN: dict[str, OfTransaction] = {
    "gtid": (pa.string(), lambda transaction: transaction.id or None),
    "log_file": (pa.int64(), lambda transaction: transaction.commit >> 32 & _FILES),
    "log_position": (pa.int64(), lambda transaction: transaction.commit & 0xFFFFFFFF),
}
"""What MySQL has besides the attributes of all databases."""
METADATA = {**SHARED, **{name: kind for name, (kind, _) in OWN.items()}}
"""The metadata attributes of a row or a change, and their types."""
