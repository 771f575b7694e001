"""Rights that a user lacks are named all at once, and the statements of the hint are enough."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from calve.errors import SourceError
from calve.sources.mysql.source import check
from calve.sources.tables import Tables
from services.mysql import MARIADB, MYSQL, PASSWORD, Kind, MySql
from sources.mysql.follow import settings_of

pytestmark = pytest.mark.services


@pytest.fixture(
    scope="module", params=[(MYSQL, "ON"), (MYSQL, "OFF"), (MARIADB, "")], ids=lambda of: of[0].name + of[1]
)
def server(request: pytest.FixtureRequest) -> Iterator[MySql]:
    kind: Kind
    kind, gtids = request.param
    with MySql(kind, **({"gtid_mode": gtids, "enforce_gtid_consistency": gtids} if gtids else {})) as running:
        running.create_database("shop")
        running.run("create database `it``s`")
        running.run("create table shop.t (id int primary key)", "create table `it``s`.t (id int primary key)")
        yield running


@pytest.mark.parametrize("include", [["shop.*"], ["*.*"], ["shop.t", "it`s.*"], ["sh*.t"]], ids=str)
def test_the_statements_of_one_hint_are_enough_and_the_rights_on_the_server_are_in_one(
    server: MySql, include: list[str]
) -> None:
    server.run("drop user if exists calve", f"create user calve identified by '{PASSWORD}'")
    settings = replace(settings_of(server, "shop"), username="calve", tables=Tables(include=include))
    with pytest.raises(SourceError) as refused:
        check(settings, "p")
    hint = refused.value.hint or ""
    statements = [each for each in hint.removeprefix("Run: ").split(";") if each.strip()]
    assert all(each.strip().startswith("GRANT ") for each in statements), hint
    assert sum("ON *.*" in each for each in statements) == 1
    server.run(*statements)
    check(settings, "p")
