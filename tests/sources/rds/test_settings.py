"""Data Prepper's `rds` becomes a source of a database, and what Calve does not do is refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from calve.errors import SettingsError
from calve.pipeline.plugins import PLUGINS
from calve.settings import PipelineSettings, parse

YAML = """
shop:
  source:
    rds:
      host: db.internal
      db_identifier: shop-1
      engine: {engine}
      database: shop
      aws: {{region: eu-central-1, sts_role_arn: "arn:aws:iam::123456789012:role/r"}}
      s3_bucket: exports
      export: {{kms_key_id: k, iam_role_arn: "arn:aws:iam::123456789012:role/e"}}
      acknowledgments: true
      stream_acknowledgment_timeout: PT10M
      authentication: {{username: calve, password: secret}}
      {more}
  sink:
    - iceberg: {{table_identifier: "shop.${{getMetadata(\\"table_name\\")}}", auto_create: true}}
"""


def parsed(folder: Path, engine: str, more: str = "") -> PipelineSettings:
    path = folder / "shop.yaml"
    path.write_text(YAML.format(engine=engine, more=more))
    return parse(path, PLUGINS).pipelines[0]


@pytest.mark.parametrize(("engine", "port"), [("mysql", 3306), ("aurora-mysql", 3307)])
def test_an_engine_of_mysql_becomes_its_source_with_the_tables_of_the_database(
    tmp_path: Path, engine: str, port: int
) -> None:
    more = f"tables: {{include: [orders, 'o_*'], exclude: [o_old]}}\n      port: {port}\n      no_key: append"
    source = parsed(tmp_path, engine, more).source
    assert source.name == "mysql"
    settings = source.value
    assert (settings.host, settings.port, settings.username, settings.password) == (
        "db.internal",
        port,
        "calve",
        "secret",
    )
    assert settings.selected.include == ["shop.orders", "shop.o_*"]
    assert settings.selected.exclude == ["shop.o_old"]
    assert settings.tls_mode == "verify-full"
    assert settings.no_key == "append"


def test_an_engine_of_postgresql_becomes_its_source_with_names_of_schemas(tmp_path: Path) -> None:
    source = parsed(
        tmp_path, "aurora-postgresql", "tables: {include: [public.orders]}\n      tls: {insecure: true}"
    ).source
    assert (source.name, source.value.database, source.value.port) == ("postgres", "shop", 5432)
    assert source.value.selected.include == ["public.orders"]
    assert source.value.ssl_mode == "prefer"
    assert parsed(tmp_path, "postgresql").source.value.selected.has("any", "table")


@pytest.mark.parametrize(
    ("engine", "more", "said"),
    [
        ("mysql", "joins: {relations: []}", "shop.source.rds.joins: is not supported"),
        ("mysql", "stream: false", "shop.source.rds.stream: must be true"),
        ("postgresql", "tables: {include: [orders]}", "has no schema; write e.g. `public.orders`"),
        ("mysql", "kms_key: x", "kms_key"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(tmp_path: Path, engine: str, more: str, said: str) -> None:
    with pytest.raises(SettingsError) as found:
        parsed(tmp_path, engine, more)
    assert said in str(found.value)


def test_the_endpoint_must_be_given(tmp_path: Path) -> None:
    path = tmp_path / "shop.yaml"
    path.write_text(YAML.format(engine="mysql", more="").replace("host: db.internal", ""))
    with pytest.raises(SettingsError, match="needs `host`, the endpoint of the database"):
        parse(path, PLUGINS)
