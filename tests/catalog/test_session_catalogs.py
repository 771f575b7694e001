from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from calve.catalog.session_catalogs import in_session, split_name
from calve.engine.engine import Engine
from calve.errors import SettingsError

ICEBERG = "org.apache.iceberg.spark.SparkCatalog"
SETTINGS = {
    "spark.sql.catalog.lake": ICEBERG,
    "spark.sql.catalog.lake.type": "rest",
    "spark.sql.catalog.lake.uri": "http://127.0.0.1:8181",
    "spark.sql.catalog.lakes": "com.example.Other",
    "spark.sql.catalog.hive": ICEBERG,
    "spark.sql.catalog.odd": ICEBERG,
    "spark.sql.catalog.odd.hadoop.fs.s3a.endpoint": "x",
}


def engine(settings: dict[str, str] = SETTINGS, current: str = "lake") -> Any:
    catalog = SimpleNamespace(currentCatalog=lambda: current)
    session = SimpleNamespace(conf=SimpleNamespace(getAll=settings), catalog=catalog)
    spark = Engine.__new__(Engine)
    spark._users = session
    return spark


def test_a_catalog_of_the_session_has_the_properties_that_spark_gives_it() -> None:
    lake = {"name": "lake", "type": "rest", "uri": "http://127.0.0.1:8181"}
    assert in_session(engine(), {"type": "spark", "name": "lake"}) == lake
    assert in_session(engine(), {"type": "SPARK", "name": "hive"}) == {"name": "hive", "type": "hive"}
    assert in_session(engine(), lake) == lake
    assert in_session(engine(), {}) == {}


@pytest.mark.parametrize("name", ["lakes", "", "unknown", "lake.type"])
def test_what_is_no_catalog_of_iceberg_is_refused_with_those_that_are(name: str) -> None:
    with pytest.raises(SettingsError, match="has no catalog") as error:
        in_session(engine(), {"type": "spark", "name": name})
    assert "it has: lake, hive, odd" in error.value.hint


def test_hadoop_settings_of_one_catalog_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"spark\.sql\.catalog\.odd\.hadoop\.fs\.s3a\.endpoint"):
        in_session(engine(), {"type": "spark", "name": "odd"})


def test_the_first_part_of_a_name_is_a_catalog_if_the_session_has_it_or_no_table_can_be_in_the_current_one() -> None:
    assert split_name(engine(), "lake.shop.orders") == ("lake", "shop.orders")
    assert split_name(engine(), "lake.orders") == ("", "lake.orders")
    assert split_name(engine(), "a.shop.orders") == ("", "a.shop.orders")
    assert split_name(engine(current="spark_catalog"), "a.shop.orders") == ("a", "shop.orders")
    assert split_name(engine(current="spark_catalog"), "shop.orders") == ("", "shop.orders")
