"""Where the processes of a round are killed, and which tables are loaded again meanwhile."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from matrix.victims import FILES
from sources.database.kills import POINTS

__all__ = ["ANY", "KILLS", "Strike", "plan"]

KILLS = 12
ANY = "any time"
FIRST = ("load.after-epoch", "load.after-begun")
FIRST_OF_WHOLE = (*FIRST, "catalog.after-create")
OF_ALL_TABLES = ("anew.after-note", "pipeline.after-clear", "anew.after-wipe", "load.after-epoch", "load.after-begun")
"""Where a reload of all tables is killed."""
PATH = (
    "ledger.before-begin",
    "ledger.after-begin",
    FILES,
    "ledger.before-stage",
    "ledger.after-stage",
    "pipeline.after-publish",
    "pipeline.after-stage",
    ANY,
    ANY,
    "commit.before-swap",
    "commit.after-swap",
    "commit.after-table",
    "catalog.after-evolve",
    FILES,
    "pipeline.after-acknowledge",
    "ledger.before-committed",
    "ledger.after-committed",
    ANY,
    ANY,
)
"""Where the whole of Calve is killed, besides at the points of loads."""
COMPARED = ("pipeline.after-apart", "reload.after-begun", "pipeline.after-compare", ANY)
"""Where it is killed while a table that changed without a trace is compared."""
TABLES = ("app.item", "app.pair")


@dataclass(frozen=True)
class Strike:
    """One kill.

    Attributes:
        point: The stop point, or any time.
        nth: At which time it is reached.
        tables: What is to be loaded again: these tables; all, if there are none; None: nothing.
        is_early: Whether that is asked for before the start.
        fills: Whether a table changes before, without a trace in the log.
    """

    point: str = ANY
    nth: int = 1
    tables: tuple[str, ...] | None = None
    is_early: bool = False
    fills: bool = False


def plan(turn: int, is_whole: bool, chance: random.Random) -> list[Strike]:
    """Choose the strikes of a round; over the rounds of a kind of server the points take turns.

    The first half is for the load, until that is over.
    """
    firsts = FIRST_OF_WHOLE if is_whole else FIRST
    first = Strike(firsts[turn % len(firsts)])
    half = KILLS // 2
    reloads = [
        Strike(POINTS[turn % len(POINTS)], 1, _tables(chance), _coin(chance)),
        Strike(OF_ALL_TABLES[turn % len(OF_ALL_TABLES)], 1, (), _coin(chance)),
        Strike(ANY, 1, _tables(chance), _coin(chance)),
        Strike(ANY, 1, _tables(chance), _coin(chance)),
    ]
    chance.shuffle(reloads)
    count = KILLS - 1 - len(reloads)
    others = [*_others(turn * count, count, chance)] if is_whole else [Strike()] * count
    chance.shuffle(others)
    compared = Strike(COMPARED[turn % len(COMPARED)], fills=True)
    later = [*others[half:], compared, *reloads]
    chance.shuffle(later)
    return [first, *others[: half - 1], *sorted(later, key=_needs_load)]


def _others(begin: int, count: int, chance: random.Random) -> Iterator[Strike]:
    for number in range(begin, begin + count):
        point = PATH[number % len(PATH)]
        often = point.startswith(("ledger.", "commit.", "pipeline."))
        yield Strike(point, chance.randint(1, 3) if often else 1)


def _needs_load(strike: Strike) -> bool:
    return strike.tables is not None


def _tables(chance: random.Random) -> tuple[str, ...]:
    return chance.choice([TABLES[:1], TABLES[1:], TABLES])


def _coin(chance: random.Random) -> bool:
    return chance.random() < 0.5
