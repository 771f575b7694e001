"""What `calve init` writes is a pipeline that Calve takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import calve
from calve.cli.main import calve as command
from calve.pipeline.plugins import PLUGINS
from calve.settings import parse
from dashboard.states import ORDERS, lake


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def init(*arguments: str, answers: str = "") -> Result:
    return CliRunner().invoke(command, ["init", *arguments], input=answers)


def settings(path: str) -> tuple[Any, Any]:
    (pipeline,) = parse(path, PLUGINS).pipelines
    return pipeline.source.value, pipeline.sinks[0].value


def test_the_defaults_make_a_pipeline() -> None:
    made = init(answers="\n\n\n")
    assert made.exit_code == 0
    assert "calve run pipeline.yaml" in made.output
    assert """curl -d '{"id": 1}' localhost:2021/log/ingest""" in made.output
    source, sink = settings("pipeline.yaml")
    assert (source.port, sink.table_identifier, sink.auto_create) == (2021, "shop.events", True)


def test_answers_and_options_are_taken() -> None:
    assert init("k.yaml", answers="kafka\nb:9092/orders\nlake.${/kind}\n").exit_code == 0
    source, sink = settings("k.yaml")
    assert (source.bootstrap_servers, source.topics[0].name) == (["b:9092"], "orders")
    assert sink.table_identifier == "lake.${/kind}"
    assert init("f.yaml", "--source", "file", "--from", 'a "b"/*.csv', "--table", "a.b").exit_code == 0
    assert settings("f.yaml")[0].path == 'a "b"/*.csv'


@pytest.mark.parametrize(
    ("kind", "place", "expected"),
    [
        (
            "postgres",
            "postgres://ann@db:6432/shop",
            {"host": "db", "port": 6432, "username": "ann", "database": "shop"},
        ),
        ("mysql", "db/shop", {"host": "db", "port": 3306, "username": "calve"}),
        ("s3", "s3://logs/in/a", {}),
        ("iceberg", "shop.orders", {}),
        ("spark", "kafka", {"read": "stream"}),
        ("spark", "jdbc", {"read": "batch"}),
        ("spark", "parquet", {"schema": "id long, at timestamp"}),
        ("spark", "kinesis", {"packages": []}),
    ],
)
def test_every_kind_of_source_is_written_from_its_place(kind: str, place: str, expected: dict[str, Any]) -> None:
    done = init(
        "--source", kind, "--from", place, *(["--table", "lake.copy"] if kind in ("s3", "iceberg", "spark") else [])
    )
    assert done.exit_code == 0, done.output
    assert "calve validate pipeline.yaml --connect" in done.output
    (pipeline,) = parse("pipeline.yaml", PLUGINS, environment={"PGPASSWORD": "x", "MYSQL_PWD": "y"}).pipelines
    assert pipeline.source.name == kind
    assert {name: getattr(pipeline.source.value, name) for name in expected} == expected


def test_the_pipeline_of_a_copy_has_a_name_without_expressions() -> None:
    assert init("--source", "mysql", "--from", "db/shop").exit_code == 0
    assert Path("pipeline.yaml").read_text().splitlines()[1] == "shop-mysql:"


def test_a_password_in_an_address_does_not_go_into_the_file() -> None:
    done = init("--source", "postgres", "--from", "postgres://ann:secret@db/shop")
    assert done.exit_code == 2
    assert "secret" not in done.output
    assert not Path("pipeline.yaml").exists()


def test_of_files_it_shows_the_table_that_they_would_make() -> None:
    Path("in.csv").write_text("id,total\n1,9.5\n")
    done = init("--source", "file", "--from", "*.csv", "--table", "shop.orders")
    assert done.exit_code == 0, done.output
    assert "What it would make of in.csv" in done.output
    assert "total double" in done.output


def test_another_delimiter_of_csv_is_said_and_written() -> None:
    Path("sales.csv").write_text("id;city\n1;Bern\n")
    done = init("--source", "file", "--from", "*.csv", "--table", "shop.sales")
    assert "sales.csv is one cell with ; in it: taken for the delimiter" in done.output
    assert "city string" in done.output
    (pipeline,) = parse(Path("pipeline.yaml"), PLUGINS).pipelines
    assert pipeline.source.value.codec.csv.delimiter == ";"


def test_of_an_iceberg_catalog_it_shows_tables_with_columns_and_first_rows(tmp_path: Path) -> None:
    lake(tmp_path / "lakehouse", "shop.orders", ORDERS)
    done = init("--source", "iceberg", "--from", "shop.orders")
    assert "The catalog in ./lakehouse has 1 table:" in done.output
    assert "shop.orders: id long, city string, at timestamptz" in done.output
    assert ["1", "Bern", "2026-11-22", "09:00:00+00:…"] in [line.split() for line in done.output.splitlines()]
    text = Path("pipeline.yaml").read_text()
    assert "# shop.orders: id long, city string, at timestamptz" in text
    done = init("b.yaml", "--source", "iceberg", "--from", "shop.none", "--key", "id")
    assert "There is no table shop.none: correct table_name" in done.output


def test_a_secret_of_a_catalog_does_not_go_into_the_file() -> None:
    rest = ["type=rest", "uri=http://127.0.0.1:1", "warehouse=w", "s3.secret-access-key=hunter2"]
    options = [part for each in rest for part in ("--catalog", each)]
    assert init("--source", "iceberg", "--from", "shop.orders", "--offline", *options).exit_code == 0
    assert "hunter2" not in Path("pipeline.yaml").read_text()
    (pipeline,) = parse(Path("pipeline.yaml"), PLUGINS).pipelines
    assert pipeline.source.value.catalogs == [
        {"type": "rest", "uri": "http://127.0.0.1:1", "warehouse": "w", "s3.secret-access-key": ""}
    ]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--source", "kafka", "--from", "orders", "--table", "a.b"), "'orders' is not BROKER/TOPIC"),
        (("--source", "http", "--from", "web", "--table", "a.b"), "expected a whole number, found 'web'"),
        (("--source", "file", "--from", "in", "--table", "b"), "has no namespace"),
        (("no/folder.yaml", "--source", "file", "--from", "in", "--table", "a.b"), "cannot be written"),
    ],
)
def test_a_wrong_answer_is_told_and_nothing_is_written(tmp_path: Path, arguments: tuple[str, ...], told: str) -> None:
    made = init(*arguments)
    assert made.exit_code == 2
    assert told in made.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("table", ["lake.version", "lake.core", "lake.source", "lake.${/kind}"])
def test_any_table_names_its_pipeline(table: str) -> None:
    assert init("--source", "file", "--from", "in", "--table", table).exit_code == 0
    assert settings("pipeline.yaml")[1].table_identifier == table


def test_without_a_terminal_it_says_which_options_answer(tmp_path: Path) -> None:
    result = CliRunner().invoke(command, ["init", str(tmp_path / "new.yaml"), "--source", "kafka"], input="")
    assert result.exit_code == 2, result.output
    assert "There is no terminal to ask" in result.stderr
    assert "--from LOCATION --table NAMESPACE.TABLE" in result.stderr
    assert not list(tmp_path.iterdir())


def test_a_file_that_exists_stays() -> None:
    Path("pipeline.yaml").write_text("mine")
    made = init(answers="\n\n\n")
    assert (made.exit_code, Path("pipeline.yaml").read_text()) == (2, "mine")
    assert "exists already" in made.stderr


def test_its_sample_request_makes_the_table() -> None:
    init(answers="\n\n\n")
    trial = calve.try_events("pipeline.yaml", [{"id": 1}])
    assert [table.table for table in trial.tables] == ["shop.events"]
