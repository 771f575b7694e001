"""A server that keeps changes out of its binary log is refused, before anything is missing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from calve.errors import SourceError
from calve.sources.mysql.source import check
from services.mysql import MARIADB, MYSQL, MYSQL_5, Kind, MySql
from sources.mysql.follow import Follower, settings_of

pytestmark = pytest.mark.services

TABLE = "create table {}.t (id int primary key)"
KINDS = pytest.mark.parametrize("kind", [MYSQL, MARIADB, MYSQL_5], ids=lambda kind: f"{kind.name}-{kind.version}")


def refused(name: str) -> str:
    return re.escape(f"changes of the database {name} are not in the log")


@KINDS
def test_databases_that_the_log_leaves_out_are_refused_at_the_first_start_and_later_ones(
    kind: Kind, tmp_path: Path
) -> None:
    with MySql(kind, binlog_ignore_db="quiet") as server:
        for name in ("shop", "quiet"):
            server.create_database(name)
            server.run(TABLE.format(name))
        check(settings_of(server, "shop"), "p")
        with pytest.raises(SourceError, match=refused("quiet")):
            check(settings_of(server, "quiet"), "p")
        follower = Follower(settings_of(server, "shop"), tmp_path)
        follower.read()
        server.stop()
        server.add_options({"binlog_do_db": "quiet"})
        server.start()
        server.run("insert into shop.t values (1)")
        with pytest.raises(SourceError, match=refused("shop")):
            follower.read()
        check(settings_of(server, "quiet"), "p")  # with binlog_do_db the server does not look at binlog_ignore_db


@KINDS
def test_a_replica_that_does_not_log_its_primary_is_refused(kind: Kind) -> None:
    with MySql(kind) as primary, MySql(kind, server_id="2", log_slave_updates="OFF") as replica:
        replica.create_database("shop")
        replica.run(TABLE.format("shop"), "reset master")
        check(settings_of(replica, "shop"), "p")
        replica.follow(primary)
        with pytest.raises(SourceError, match="the server is a replica"):
            check(settings_of(replica, "shop"), "p")
        replica.promote()
        check(settings_of(replica, "shop"), "p")
