"""Transactions that the stream has before other sessions see them, as with a synchronous standby that is slow."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from typing import Any

import pytest

from calve.event.columns import TYPED
from calve.sources.database.connection import ClosedError
from calve.sources.postgres import source
from calve.state.local_folder import LocalFolder
from kit.running import until
from services.postgres import Postgres
from sources.database.pipeline import settings_of

pytestmark = pytest.mark.services

TRANSACTION = """
set synchronous_commit = on;
begin;
update app.t set large = repeat('new', 1000) where id = 1;
update app.t set n = 2 where id = 1;
update app.t set id = 12 where id = 2;
insert into app.t values (3, 1, repeat('c', 3000));
update app.t set n = 2 where id = 3;
commit
"""


def test_a_large_value_of_a_transaction_that_is_not_visible_yet_is_its_own(tmp_path: Path) -> None:
    with Postgres(synchronous_commit="local") as server:
        server.run(
            "alter system set synchronous_standby_names = 'nobody'",
            "select pg_reload_conf()",
            "create schema app",
            "create table app.t (id int primary key, n int, large text)",
            "alter table app.t alter large set storage external",
            "insert into app.t values (1, 1, repeat('old', 1000)), (2, 1, repeat('b', 3000))",
        )
        opened = source.open(settings_of("postgres", server.port, "postgres"), LocalFolder(tmp_path), "p")
        opened.start(None, False)
        try:
            found: dict[int, Any] = {}
            reading = _Reading(opened, found)
            reading.go_on()
            hanging = threading.Thread(target=_commit, args=[server], daemon=True)
            hanging.start()
            asked = (
                "select from pg_stat_activity where application_name = 'calve p catalog' and query like '%snapshot%'"
            )
            until(lambda: reading.waits or server.run(asked), "the stream has the transaction")
            server.run("alter system set synchronous_standby_names = ''", "select pg_reload_conf()")
            hanging.join()
            until(lambda: reading.go_on() == {1: 2, 2: None, 12: 1, 3: 2}, "all changes were read")
        finally:
            opened.stop()
        expected = {int(row[0] or 0): tuple(row) for row in server.run("select id, n, large from app.t")}
    del found[2]  # its key is another one
    assert {key: (str(key), str(row["n"]), row["large"]) for key, row in found.items()} == expected


def _commit(server: Postgres) -> None:
    with contextlib.suppress(ClosedError):
        server.run(TRANSACTION)


class _Reading:
    """Reads what is durable, from where it was; an entry of the log may have a part of a transaction."""

    def __init__(self, opened: Any, found: dict[int, Any]) -> None:
        self._opened, self._found, self._position = opened, found, None

    @property
    def waits(self) -> bool:
        return bool(self._opened.backlog(self._position))

    def go_on(self) -> dict[int, int | None]:
        """Read what there is; give `n` of all rows until now, None for deleted ones."""
        while planned := self._opened.plan(self._position, 1 << 22):
            for split in planned.splits:
                for batch in self._opened.reader.read(split):
                    self._found.update({row["id"]: row for row in batch[TYPED].to_pylist()})
            self._position = planned.position
            self._opened.acknowledge(planned)
        return {key: row["n"] for key, row in self._found.items()}
