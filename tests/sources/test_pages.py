"""A server and a user that are set up as the pages say are enough for the pipelines of the pages."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable

import pytest
from click.testing import CliRunner

from calve.cli.main import calve as command
from kit.command_lines import command_lines
from kit.documents import runnable, yamls
from kit.running import Calve
from services import mysql, postgres
from services.mysql import MySql
from services.postgres import Postgres

pytestmark = [pytest.mark.services, pytest.mark.spark]

TABLE = ("create table orders (id int primary key)", "insert into orders values (1)")


def statements(block: str, password: str) -> list[str]:
    lines = re.sub("--.*", "", block).replace("…", password).split(";")
    return [statement for statement in lines if statement.strip()]


def page(name: str, port: int, variable: str, password: str) -> str:
    yaml = yamls(name)[0].replace("db.internal", f"127.0.0.1\n      port: {port}\n      allow_cleartext_password: true")
    return yaml.replace(variable, f'"{password}"')


def test_a_user_with_the_rights_of_the_page_reads_postgresql(calve: Callable[..., Calve]) -> None:
    with Postgres() as server:
        database = server.create_database("shop")
        server.run(*TABLE, database=database)
        [rights] = runnable("docs/postgres.md")
        server.run(*statements(rights, postgres.PASSWORD), database=database)
        running = calve(page("docs/postgres.md", server.port, "${env:PGPASSWORD}", postgres.PASSWORD))
        told = running.call("validate", "--connect", "pipelines.yaml").output
        [publication] = set(re.findall(r"CREATE PUBLICATION .*", told))
        server.run(publication, database=database)
        assert running.once() == 0, running.said()[-4000:]
        assert running.rows("shop.orders")["id"].to_pylist() == [1]
        _, commands = runnable("docs/databases.md")
        with contextlib.chdir(running.folder):
            (running.folder / "shop.yaml").write_text((running.folder / "pipelines.yaml").read_text())
            called = [CliRunner().invoke(command, words, input="y\n") for words in command_lines(commands)]
        assert [call.exit_code for call in called] == [0, 0, 0], [call.output for call in called]
        assert "public.orders" in called[0].output
        assert "streaming" in called[0].output
        assert running.once() == 0, running.said()[-4000:]
        assert running.rows("shop.orders")["id"].to_pylist() == [1]


def test_a_server_and_a_user_as_on_the_page_are_enough_for_mysql(calve: Callable[..., Calve]) -> None:
    settings, rights = runnable("docs/mysql.md")
    with MySql(binlog_format="MIXED", binlog_row_image="MINIMAL", binlog_row_metadata="MINIMAL") as server:
        server.create_database("shop")
        server.run(*TABLE, database="shop")
        server.run(*statements(settings + rights, mysql.PASSWORD))
        running = calve(page("docs/mysql.md", server.port, "${env:MYSQL_PWD}", mysql.PASSWORD))
        assert running.once() == 0, running.said()[-4000:]
        assert running.rows("shop.orders")["id"].to_pylist() == [1]
