"""A few rounds of `make fuzz FUZZ=--databases`, always the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz import databases
from fuzz.mysql_dialect import MysqlDialect
from fuzz.postgres_tables import PostgresDialect
from services.mysql import MARIADB, MYSQL, MySql
from services.postgres import Postgres

pytestmark = pytest.mark.services
NUMBER = 4


@pytest.mark.parametrize("kind", ["postgres", "mysql", "mariadb"])
def test_random_tables_are_as_in_the_database_or_refused_by_name_and_the_application_goes_on(
    tmp_path: Path, kind: str
) -> None:
    with Postgres() if kind == "postgres" else MySql(MARIADB if kind == "mariadb" else MYSQL) as server:
        dialect = PostgresDialect(server) if isinstance(server, Postgres) else MysqlDialect(server)
        counts, findings = databases.of(dialect, "1", NUMBER, tmp_path)
    assert findings == []
    assert counts["rows"] > 0
