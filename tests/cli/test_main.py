from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from calve import __version__
from calve.cli.main import COMMANDS

from .conftest import GOOD, Pipelines, Shell


def test_help_names_every_command_and_shows_a_first_pipeline(shell: Shell) -> None:
    result = shell("--help")
    assert result.exit_code == 0
    assert "table_identifier: shop.orders" in result.output
    for name, text in COMMANDS.items():
        assert f"  {name}" in result.output
        assert text in result.output


def test_an_unknown_command_is_answered_with_the_nearest_one(shell: Shell) -> None:
    assert "No such command 'runn'. Did you mean 'run'?" in shell("runn").output
    assert "Did you mean" not in shell("xyz").output


def test_no_help_imports_spark_arrow_or_duckdb() -> None:
    code = (
        "import sys, click; from calve.cli.main import calve\n"
        "def ask(command, *path):\n"
        "    try: calve([*path, '--help'])\n"
        "    except SystemExit: pass\n"
        "    if isinstance(command, click.Group):\n"
        "        for name in command.list_commands(click.Context(command)):\n"
        "            ask(command.get_command(click.Context(command), name), *path, name)\n"
        "ask(calve)\n"
        "slow = ('pyspark', 'pyarrow', 'numpy', 'duckdb', 'pyiceberg', 'prometheus_client', 'jinja2')\n"
        "print([name for name in slow if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "calve dlq replay" in done.stdout
    assert done.stderr.strip() == "[]"


@pytest.mark.usefixtures("pipelines")
@pytest.mark.parametrize("command", ["run", "validate", "status", "dlq", "dlq list", "dlq show", "doctor", "schema"])
def test_the_help_of_a_command_teaches_by_an_example(shell: Shell, command: str) -> None:
    result = shell(*command.split(), "--help")
    assert result.exit_code == 0
    assert f"calve {command}" in result.output.partition("\n\n")[2]
    assert "Example" in result.output


@pytest.mark.usefixtures("pipelines")
def test_the_list_and_the_help_of_a_command_begin_alike(shell: Shell) -> None:
    for name in ("run", "validate"):
        assert COMMANDS[name].split()[:3] == shell(name, "--help").output.partition("\n\n")[2].split()[:3]


def test_the_version_is_told(shell: Shell) -> None:
    assert shell("--version").output == f"calve {__version__}\n"


@pytest.mark.parametrize("arguments", [["fly"], ["status", "--fly"], ["doctor", "extra"]])
def test_a_wrong_command_line_is_exit_code_2(shell: Shell, arguments: list[str]) -> None:
    result = shell(*arguments)
    assert result.exit_code == 2
    assert "Error: " in result.stderr


def test_a_name_where_none_is_expected_is_told_with_its_option(shell: Shell) -> None:
    assert "write --pipeline orders or --table orders" in shell("dlq", "show", "orders").stderr
    assert "calve status takes no argument; a b is too much: write --pipeline a" in shell("status", "a", "b").stderr
    assert shell("doctor", "extra").stderr.endswith("calve doctor takes no argument; extra is too much\n")


def test_ctrl_c_is_quiet(shell: Shell, pipelines: Pipelines) -> None:
    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    pipelines.work = interrupted
    result = shell("run", shell.write("a.yaml", GOOD), "--metrics-port", "0")
    assert (result.exit_code, result.output.count("\n")) == (130, 1)


def test_a_reader_that_goes_away_is_no_failure(shell: Shell) -> None:
    folder = shell.folder / "calve-state" / "orders" / "dlq"
    folder.mkdir(parents=True)
    (folder / "1.ndjson").write_text('{"code": "MALFORMED", "event": "x"}\n' * 50_000)
    calve = [sys.executable, "-m", "calve", "dlq", "show", "--raw"]
    with subprocess.Popen(calve, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=shell.folder) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"x\n"
        process.stdout.close()
        assert process.stderr.read() == b""


def test_it_runs_with_a_closed_stderr() -> None:
    command = f'"{sys.executable}" -m calve --version 2>&-'
    ran = subprocess.run(command, shell=True, stdout=subprocess.PIPE, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, f"calve {__version__}\n")


def test_a_command_ends_with_its_output_written_its_exit_functions_run_and_its_code() -> None:
    code = (
        "import atexit, sys; from calve.cli.main import main\n"
        "class Late:\n"
        "    def __del__(self): print('taken apart')\n"
        "kept = Late()\n"
        "atexit.register(lambda: print('at the end'))\n"
        "sys.argv = ['calve', *sys.argv[1:]]\n"
        "main()"
    )
    for argument, expected in (("--version", 0), ("nothing", 2)):
        done = subprocess.run([sys.executable, "-c", code, argument], capture_output=True, text=True, check=False)
        assert done.returncode == expected
        assert done.stdout.splitlines()[-1] == "at the end"


@pytest.mark.parametrize("arguments", [["--version"], ["schema"]])
def test_output_that_cannot_be_written_is_an_error_in_one_line(arguments: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "calve", *arguments]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines() == ["Error: No space left on device"]


def test_what_run_needs_before_its_jvm_starts_imports_no_spark() -> None:
    code = (
        "import sys, calve.engine.jvm.process, calve.pipeline.plugins, calve.pipeline.spark_needs\n"
        "sys.exit('pyspark' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
