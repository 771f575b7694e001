"""A few rounds of `make fuzz FUZZ=--databases`, always the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz import databases
from fuzz.postgres_tables import PostgresDialect
from services.postgres import Postgres

pytestmark = pytest.mark.services


def test_random_tables_are_as_in_the_database_or_refused_by_name_and_the_application_goes_on(tmp_path: Path) -> None:
    with Postgres() as server:
        counts, findings = databases.of(PostgresDialect(server), "1", 4, tmp_path)
    assert findings == []
    assert counts["rows"] > 0
