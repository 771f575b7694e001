"""Statements that the dialects of `fuzz.databases` share."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

__all__ = ["SEPARATOR", "transaction"]

SEPARATOR = ";\n"
"""Between statements of one session."""


def transaction(chance: random.Random, kinds: Sequence[Callable[[], str]]) -> str:
    """Give a transaction of some statements, a part of which may be rolled back."""
    statements = [chance.choice(kinds)() for _ in range(chance.randint(2, 5))]
    if chance.random() < 0.4:
        end = chance.choice(["rollback to savepoint s", "release savepoint s"])
        at = chance.randrange(len(statements))
        statements = [*statements[:at], "savepoint s", *statements[at:], end]
        statements += [chance.choice(kinds)()] * chance.randint(0, 1)
    return SEPARATOR.join(["begin", *statements, chance.choice(("commit", "commit", "rollback"))])
