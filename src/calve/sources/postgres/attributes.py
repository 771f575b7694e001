"""The metadata attributes of the postgres source's events."""

from __future__ import annotations

import pyarrow as pa

from calve.sources.database.attributes import METADATA as SHARED
from calve.sources.database.attributes import OfTransaction

__all__ = ["METADATA", "OWN"]

OWN: dict[str, OfTransaction] = {
    "lsn": (pa.int64(), lambda transaction: transaction.commit),
    "transaction_id": (pa.int64(), lambda transaction: int(transaction.id)),
}
"""What PostgreSQL has besides the attributes of all databases."""
METADATA = {**SHARED, **{name: kind for name, (kind, _) in OWN.items()}}
"""The metadata attributes of a row or a change, and their types."""
