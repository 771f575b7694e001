"""How a load divides tables, as far as no server is needed."""

from __future__ import annotations

from typing import Any

import pytest

from calve.errors import SourceUnavailableError
from calve.sources.database.table import Column, DatabaseTable
from calve.sources.mysql.catalog.database import MysqlCatalogTable
from calve.sources.mysql.load import chunks


def test_a_table_that_the_catalog_lacks_for_a_moment_lets_the_start_be_tried_again() -> None:
    """MySQL 5.7 shows no table while a statement gives it other columns."""
    server: Any = None
    table = DatabaseTable("server", 1, "app", "busy", (Column("id", 1, "int", "int", 3, 0, True),))
    found = MysqlCatalogTable("app", "busy", "BASE TABLE", "InnoDB", 0, True, {})
    for tables, seen in (([table], []), ([], [found])):
        with pytest.raises(SourceUnavailableError, match=r"app\.busy has just been changed"):
            chunks(server, tables, seen)
