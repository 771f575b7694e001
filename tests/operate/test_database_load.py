"""One line for a database: what the address says, and what is then in the tables and on the server."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
import yaml
from click.testing import CliRunner, Result

from calve.catalog.sqlite import embedded
from calve.cli.main import calve as command
from calve.errors import SettingsError
from calve.operate.database_address import DatabaseAddress, is_database
from calve.operate.quick import catalog_in, database_pipeline
from calve.pipeline.plugins import PLUGINS
from calve.settings import parse_text
from kit.running import Calve
from services.mysql import PASSWORD as MYSQL_PASSWORD
from services.mysql import MySql
from services.postgres import PASSWORD, Postgres


def load(*arguments: str) -> Result:
    return CliRunner().invoke(command, ["load", *arguments])


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("postgres://ann@db:6432/shop", ("postgres", "db", 6432, "ann", "shop")),
        ("postgresql://db/my%20shop", ("postgres", "db", 5432, "calve", "my shop")),
        ("mysql://root@[::1]", ("mysql", "::1", 3306, "root", "")),
        ("MariaDB://h/shop?sslmode=disable", ("mysql", "h", 3306, "calve", "shop")),
    ],
)
def test_an_address_says_where_a_database_is(address: str, expected: tuple[object, ...]) -> None:
    assert is_database(address)
    parsed = DatabaseAddress.of(address)
    assert (parsed.kind, parsed.host, parsed.port, parsed.user, parsed.database) == expected


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("postgres://ann:hunter2@db", "'postgres://db' is not the address of a database"),
        ("mysql://ann:hunter2@:x", "is not the address of a database"),
        ("postgres://ann:hunter2@db/shop?sslmode=maybe", "sslmode=maybe, which Calve does not know"),
        ("postgres://ann:hunter2@db/shop?sslcert=x", "has sslcert, which Calve does not know"),
    ],
)
def test_an_address_that_is_none_is_refused_without_its_password(address: str, said: str) -> None:
    with pytest.raises(SettingsError) as refused:
        DatabaseAddress.of(address)
    assert said in str(refused.value)
    assert "hunter2" not in str(refused.value)
    assert "hunter2" not in repr(DatabaseAddress.of("mysql://ann:hunter2@db"))


def test_files_are_no_databases() -> None:
    assert [is_database(text) for text in ("in/*.csv", "s3://b/x", "postgres", "file:///x")] == [False] * 4


def test_the_pipeline_of_a_load_is_printed_without_the_password() -> None:
    done = load("postgres://ann:hunter2@db/shop", "--tables", "public.*", "--exclude", "public.a*", "there", "--print")
    assert done.exit_code == 0, done.output
    assert "hunter2" not in done.output
    [(name, pipeline)] = yaml.safe_load(done.stdout).items()
    assert name.startswith("load-shop-")
    assert pipeline["source"]["postgres"]["tables"] == {"include": ["public.*"], "exclude": ["public.a*"]}
    from pathlib import Path

    assert pipeline["sink"][0]["iceberg"]["catalog"] == embedded(Path("there"))
    (parsed,) = parse_text(done.stdout, PLUGINS, environment={"PGPASSWORD": "secret"}).pipelines
    assert (parsed.source.value.password, parsed.source.value.on_lost_position) == ("secret", "reload")
    usual = yaml.safe_load(load("mysql://db/shop", "./lakehouse", "--print").stdout)
    [(_, pipeline)] = usual.items()
    assert "catalog" not in pipeline["sink"][0]["iceberg"]
    assert pipeline["source"]["mysql"]["tables"] == {"include": ["shop.*"]}


def test_databases_have_pipelines_of_their_own() -> None:
    addresses = ("postgres://a/x", "postgres://b/x", "postgres://a:1/x", "postgres://a/y", "mysql://a/x", "mysql://a")
    assert len({DatabaseAddress.of(address).pipeline() for address in addresses}) == len(addresses)


def test_each_folder_is_loaded_from_the_beginning() -> None:
    address = DatabaseAddress.of("mysql://db/shop")
    names = [
        name for folder in ("lakehouse", "a", "b") for name in database_pipeline(address, (), (), catalog_in(folder))
    ]
    assert len(set(names)) == 3
    assert names[0] == address.pipeline()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("in/*.csv",), "The table is missing"),
        (("mongodb://h/x", "a.b"), "mongodb: is no source of calve load"),
        (("jdbc:mysql://h/x",), "It reads files, s3://, postgres:// and mysql://"),
        (("in/*.csv", "a.b", "--tables", "x.*"), "--tables is not for files"),
        (("in/*.csv", "a.b", "--keep-slot"), "--keep-slot is not for files"),
        (("postgres://db/shop", "--key", "id"), "--key is not for a database"),
        (("postgres://db/shop", "shop.orders"), "shop.orders is no folder"),
    ],
)
def test_what_does_not_go_together_is_refused(arguments: tuple[str, ...], said: str) -> None:
    done = load(*arguments)
    assert done.exit_code == 2
    assert said in done.stderr


@pytest.mark.services
@pytest.mark.spark
def test_a_database_is_loaded_in_one_line_and_nothing_is_left_on_its_server(calve: Callable[..., Calve]) -> None:
    job = calve("")
    with Postgres() as server:
        database = server.create_database("shop")
        orders = "create table orders (id int primary key, total numeric(9,2))"
        server.run(orders, "insert into orders values (1, 2.50), (2, null)", database=database)
        server.run("create table audit (note text)", database=database)
        address = f"postgres://postgres:{PASSWORD.replace(' ', '%20')}@127.0.0.1:{server.port}/{database}"
        done = job.call("load", address, "--tables", "public.*", "./lakehouse")
        assert done.exit_code == 1
        assert "public.audit has no primary key" in done.output
        only = ("--tables", "public.*", "--exclude", "public.audit", "./lakehouse")
        done = job.call("load", address, *only)
        assert done.exit_code == 0, done.output
        assert job.rows("public.orders").sort_by("id").to_pydict()["id"] == [1, 2]
        leftovers = "select (select count(*) from pg_replication_slots), (select count(*) from pg_publication)"
        assert server.run(leftovers, database=database) == [["0", "0"]]
        server.run("delete from orders where id = 1", "insert into orders values (3, 1)", database=database)
        done = job.call("load", address, *only)
        assert done.exit_code == 0, done.output
        assert job.rows("public.orders").sort_by("id").to_pydict()["id"] == [2, 3]
        done = job.call("load", address, *only, "--keep-slot")
        assert done.exit_code == 0, done.output
        server.run("update orders set total = 7 where id = 3", database=database)
        done = job.call("load", address, *only, "--keep-slot")
        assert done.exit_code == 0, done.output
        assert "reloading" not in done.output
        assert [float(total or 0) for total in job.rows("public.orders").sort_by("id").to_pydict()["total"]] == [
            0.0,
            7.0,
        ]
        assert server.run("select count(*) from pg_replication_slots") == [["1"]]
    assert PASSWORD not in done.output


@pytest.mark.services
@pytest.mark.spark
def test_a_mysql_server_is_loaded_in_one_line(calve: Callable[..., Calve], monkeypatch: pytest.MonkeyPatch) -> None:
    job = calve("")
    monkeypatch.setenv("MYSQL_PWD", MYSQL_PASSWORD)
    with MySql() as server:
        server.create_database("shop")
        server.run("create table t (id int primary key, n int)", "insert into t values (1, 5)", database="shop")
        address = f"mysql://root@127.0.0.1:{server.port}/shop?allow_cleartext_password=true"
        for statement, expected in (("select 1", [1]), ("insert into t values (2, 6)", [1, 2])):
            server.run(statement, database="shop")
            done = job.call("load", address)
            assert done.exit_code == 0, done.output
            assert sorted(job.rows("shop.t")["id"].to_pylist()) == expected
    assert os.environ["MYSQL_PWD"] == MYSQL_PASSWORD
