"""Made-up events for benchmarks: ten fields, about 220 bytes, quickly made; and the sums that their table must have."""

from __future__ import annotations

import random
from collections.abc import Iterator

SUMS = "count(*), sum(id), sum(n), sum(CAST(round(amount * 100) AS BIGINT)), sum(length(page) + length(session))"
"""What `Events.sums` is in SQL."""
COLUMNS = (
    "id bigint, tenant string, user_id bigint, kind string, at string, amount double, country string, ok boolean, "
    "page string, session string, n bigint"
)
"""The columns for those who must be given them."""
_POOL = 4096


class Events:
    """Events as JSON; the field `tenant` has a value for each table, e.g. `t7`.

    Args:
        count: How many.
        tables: How many values `tenant` has.
        tenant: What stands before its number.
    """

    def __init__(self, count: int, tables: int = 1, tenant: str = "t") -> None:
        self.count = count
        self._tables = tables
        self._tenant = tenant
        chance = random.Random(7)
        self._pool = [_values(chance) for _ in range(_POOL)]

    def __iter__(self) -> Iterator[bytes]:
        """Make them; the texts come from a pool, so that making them is quick."""
        for number in range(self.count):
            user, kind, at, amount, country, page, session = self._pool[number * 31 % _POOL]
            yield (
                f'{{"id":{number},"tenant":"{self._tenant}{number % self._tables}","user_id":{user},"kind":"{kind}",'
                f'"at":"{at}","amount":{amount},"country":"{country}","ok":true,"page":"{page}",'
                f'"session":"{session}","n":{number % 977}}}'
            ).encode()

    def sums(self) -> list[int]:
        """Return the number of rows and the sums of `SUMS`."""
        chosen = [self._pool[number * 31 % _POOL] for number in range(_POOL)]
        cents = [round(values[3] * 100) for values in chosen]
        lengths = [len(values[5]) + len(values[6]) for values in chosen]
        rounds, rest = divmod(self.count, _POOL)
        ids = self.count * (self.count - 1) // 2
        ns = sum(number % 977 for number in range(self.count))
        return [self.count, ids, ns, *(sum(each) * rounds + sum(each[:rest]) for each in (cents, lengths))]


def _values(chance: random.Random) -> tuple[int, str, str, float, str, str, str]:
    return (
        chance.randrange(10**9),
        chance.choice(("page_view", "click", "purchase", "login")),
        f"2026-03-{chance.randrange(10, 29)}T{chance.randrange(10, 24)}:{chance.randrange(10, 60)}:00.000Z",
        round(chance.uniform(0, 1000), 2),
        chance.choice(("DE", "FR", "US", "JP")),
        f"/shop/category/{chance.randrange(10**5)}/item",
        f"{chance.getrandbits(64):016x}",
    )
