"""Takes a ledger on an object store away from its driver, as a standby does after the lease has expired."""

from __future__ import annotations

from calve.ledger import lease
from calve.ledger.ledger import Ledger
from calve.state.store_folder import StoreFolder


def taken_over(ledger: Ledger) -> Ledger:
    """Return the ledger, open for another driver; the former one does not know yet, and nothing was released."""
    assert isinstance(ledger.folder, StoreFolder)
    before = lease.LeaseAcquisition.is_alive
    lease.LeaseAcquisition.is_alive = lambda *_: False  # type: ignore[method-assign]
    try:
        return Ledger.open(ledger.folder, ledger.pipeline)
    finally:
        lease.LeaseAcquisition.is_alive = before  # type: ignore[method-assign]
