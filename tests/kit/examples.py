"""How many examples a property is tried with: enough for each run of all tests, and more when it is asked for."""

from __future__ import annotations

import os


def examples(count: int) -> int:
    """Give `count`, times what the variable CALVE_EXAMPLES says."""
    return count * int(os.environ.get("CALVE_EXAMPLES", "1"))
