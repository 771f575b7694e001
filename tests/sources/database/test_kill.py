"""kill -9 of the source and of the database, at any moment of the load, at its end, and in the stream."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from services.objects import ObjectStore
from sources.database.kills import KILLS, PLACES, killed, place, reloaded, same_in_the_end
from sources.database.shop import Shop

pytestmark = [pytest.mark.services, pytest.mark.crash]

IS_LONG = "CALVE_KILLS" in os.environ
KINDS = ("postgres", "mysql", "mariadb", "mysql-5")
WHERE = [(kind, where) for kind in KINDS for where in PLACES]
"""All of them run with CALVE_KILLS; else MySQL is for MariaDB, too, and each database has another place of its state."""


@pytest.mark.parametrize(("kind", "where"), WHERE if IS_LONG else [("postgres", "disk"), ("mysql", "store")])
def test_after_kills_at_any_moment_the_rows_are_those_of_the_database(
    kind: str, where: str, tmp_path: Path, object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed = random.randrange(1 << 30)
    with Shop(kind) as shop:

        def shake(number: int) -> None:
            if number == KILLS // 3:
                shop.add("extra", "text")
            if number == KILLS // 2:
                shop.crash()
            if number % 3 == 2 and shop.source == "mysql":
                shop.run("flush binary logs")

        process = shop.process(tmp_path, **place(where, object_store, monkeypatch))
        killed(process, seed, [shop.writer(seed + number) for number in range(2)], shake)
        shop.run("update app.item set extra = 'e' where id % 3 = 0")
        same_in_the_end(process, shop.wanted(), seed)


@pytest.mark.parametrize(("kind", "where"), WHERE if IS_LONG else [("postgres", "store"), ("mysql", "disk")])
def test_tables_are_loaded_anew_while_others_go_on_whatever_is_killed(
    kind: str, where: str, tmp_path: Path, object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed = random.randrange(1 << 30)
    with Shop(kind, items=3_000) as shop:
        shop.run("create table app.tick (id int primary key, n int)")
        shop.run("insert into app.tick values (1, 0), (2, 0), (3, 0)")
        shop.add("extra", "text")
        process = shop.process(tmp_path, **place(where, object_store, monkeypatch))
        writers = [shop.writer(seed + number) for number in range(2)]
        for writer in writers:
            writer.ticks = True
        reloaded(process, writers, lambda: shop.run("truncate app.pair"))
        ticks = {str(row["id"]): row for row in shop.rows("tick", "id", "n")}
        same_in_the_end(process, {**shop.wanted(), "tick": ticks}, seed)
