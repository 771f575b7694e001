"""kill -9 of the source amid DDL that the log does not describe."""

from __future__ import annotations

import contextlib
import json
import random
from pathlib import Path

import pytest

from calve.errors import SourceError
from calve.sources.database import reload
from calve.state.local_folder import LocalFolder
from kit.running import until
from services.mysql import MYSQL_5, MySql
from sources.database import pipeline
from sources.database.kills import KILLS, Process, overview, same_in_the_end
from sources.mysql.ddl.test_describe import BUSY, FLIPS, Busy

pytestmark = [pytest.mark.services, pytest.mark.crash]


def test_amid_kills_and_ddl_that_the_log_does_not_describe_a_table_is_right_or_stopped(tmp_path: Path) -> None:
    chance, store = random.Random(), pipeline.Store(tmp_path)
    names = ("busy0", "busy1", "busy2")

    def stopped() -> list[str]:
        with contextlib.suppress(SourceError):  # no load has begun
            return [
                name for name, what in overview(LocalFolder(tmp_path / "source")).items() if what.startswith("stopped")
            ]
        return []

    with MySql(MYSQL_5) as server:
        server.create_database("app")
        server.run(*BUSY, "create table last (id int primary key)", "insert into last values (1)", database="app")
        process = Process(tmp_path, "mysql", server.port, "", on_unlogged_change="ignore")
        flips = [flip for flip in FLIPS if "change" not in flip[0] and "add k" not in flip[0]]
        busy = [Busy(server, "app", chance.random(), flips if number == 0 else ()) for number in range(3)]
        for one in busy:
            one.start()
        for _ in range(KILLS):
            process.start()
            enough = store.commits + chance.randrange(1, 9)
            until(
                lambda enough=enough: store.commits >= enough or len(stopped()) == len(names),
                "batches are committed, or all tables are stopped, after which there are none",
            )
            process.kill()
            if found := stopped():
                reload.request(LocalFolder(tmp_path / "source"), 0, found)
        for one in busy:
            one.enough.set()
            one.join()
            assert not one.failed
        server.run("insert into app.last values (2)")
        process.start()
        until(lambda: "2" in store.rows("last"), "everything is read")
        reload.request(LocalFolder(tmp_path / "source"), 0, stopped())
        expected = {
            name: {
                row[0] or "": json.loads(row[1] or "")
                for row in server.run(
                    f"select id, json_object('id', id, 'a', a, 'b', b, 'e', e, 'c', c) from app.{name}"
                )
            }
            for name in names
        }
        same_in_the_end(process, expected, 0)
