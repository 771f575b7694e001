from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from calve.compiled import library
from calve.errors import EngineError
from calve.observe.status import BatchCounts
from calve.observe.watch import Watch

from .conftest import GOOD, Pipelines, Shell

QUIET = ("--metrics-port", "0")


def busy(pipelines: Sequence[Any], options: Any, watch: Watch) -> int:
    for one in pipelines:
        status = watch.pipeline(one.name, f"{options.state}/{one.name}")
        status.set_state("running")
        status.batch_written(BatchCounts(1, 10), 0.1)
        status.table_committed("a.b", 10, 1)
        status.set_state("stopped")
    return 0


def test_options_reach_the_pipelines(shell: Shell, pipelines: Pipelines) -> None:
    shell.write("a.yaml", GOOD)
    conf = ("--conf", "spark.a=1", "--conf", "spark.b=x=y")
    result = shell("run", "a.yaml", "--once", "--state", "here", "--master", "local[3]", *conf, *QUIET)
    assert result.exit_code == 0, result.output
    ((names, options),) = pipelines.ran
    assert names == ["orders"]
    assert (options.state, options.master, options.once) == ("here", "local[3]", True)
    assert options.conf == {"spark.a": "1", "spark.b": "x=y"}


def test_a_bundle_is_sent_to_the_executors_of_a_cluster(shell: Shell, pipelines: Pipelines) -> None:
    shell.write("a.yaml", GOOD)
    for bundle in (shell.write("b.tar.gz", ""), "s3://bucket/b.tar.gz"):
        more = ("--master", "yarn", "--bundle", bundle, "--conf", "spark.executor.cores=2", *QUIET)
        result = shell("run", "a.yaml", "--once", *more)
        assert result.exit_code == 0, result.output
        assert pipelines.ran[-1][1].conf == {
            "spark.archives": f"{bundle}#calve",
            "spark.pyspark.python": "./calve/bin/python",
            "spark.executor.cores": "2",
        }


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--bundle", "no.tar.gz", "--master", "yarn"), "--bundle no.tar.gz: there is no such file; `calve bundle"),
        (("--bundle", "a.yaml"), "--bundle is for a cluster: name its --master"),
        (("--bundle", "a.yaml", "--conf", "spark.master=local[2]"), "--bundle is for a cluster: name its --master"),
    ],
)
def test_a_bundle_that_cannot_be_sent_is_refused(
    shell: Shell, pipelines: Pipelines, more: tuple[str, ...], said: str
) -> None:
    shell.write("a.yaml", GOOD)
    result = shell("run", "a.yaml", *more, *QUIET)
    assert (result.exit_code, said in result.stderr) == (2, True), result.output
    assert pipelines.ran == []


def test_a_run_ends_with_its_last_figures_and_a_status_file(shell: Shell, pipelines: Pipelines) -> None:
    pipelines.work = busy
    result = shell("run", shell.write("a.yaml", GOOD), *QUIET)
    assert result.exit_code == 0
    assert "orders stopped · " in result.stderr
    assert "10 rows written to 1 table" in result.stderr
    assert result.stdout == ""
    assert json.loads((shell.folder / "calve-state/orders/status.json").read_text())["state"] == "stopped"


def test_a_run_without_the_compiled_core_says_so_in_one_line(
    shell: Shell, pipelines: Pipelines, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = EngineError("The compiled core is missing: events are converted slower", hint="Install Rust")
    monkeypatch.setattr(library, "missing", lambda: missing)
    result = shell("run", shell.write("a.yaml", GOOD), *QUIET)
    assert result.exit_code == 0
    assert "warning: The compiled core is missing: events are converted slower. Install Rust\n" in result.stderr


def test_with_json_every_line_of_stderr_is_an_object(shell: Shell, pipelines: Pipelines) -> None:
    def failing(*arguments: Any) -> int:
        busy(*arguments)
        raise EngineError("there is no Java", step="engine", hint="Install one")

    pipelines.work = failing
    result = shell("run", shell.write("a.yaml", GOOD), "--json", *QUIET)
    records = [json.loads(line) for line in result.stderr.splitlines()]
    assert result.exit_code == 1
    assert [record["message"].split()[0] for record in records] == ["starting", "stopped", "there"]
    assert [record.get("error") for record in records] == [None, None, "EngineError"]


def test_a_failed_pipeline_is_exit_code_1(shell: Shell, pipelines: Pipelines) -> None:
    pipelines.work = lambda *_: 1
    assert shell("run", shell.write("a.yaml", GOOD), *QUIET).exit_code == 1


def test_an_error_is_one_sentence_and_a_traceback_only_with_debug(shell: Shell, pipelines: Pipelines) -> None:
    def failing(*_: object) -> int:
        raise EngineError("there is no Java", hint="Install one") from FileNotFoundError("java")

    pipelines.work = failing
    shell.write("a.yaml", GOOD)
    result = shell("run", "a.yaml", *QUIET)
    starting, _, error = result.stderr.partition("\n")
    assert starting.endswith(" starting orders")
    assert (result.exit_code, error) == (1, "Error: there is no Java. Install one\n")
    result = shell("run", "a.yaml", "--debug", *QUIET)
    assert "Error: there is no Java. Install one\nFileNotFoundError: java\n" in result.stderr


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        (ZeroDivisionError("oh"), "this is a bug in Calve: ZeroDivisionError: oh. Run it again with --debug"),
        (PermissionError(13, "Permission denied", "/x"), "Error: Permission denied: /x\n"),
        (ImportError("no module pyspark"), "cannot be imported: no module pyspark. Install Calve again"),
    ],
)
def test_the_unforeseen_is_one_sentence_too(shell: Shell, pipelines: Pipelines, raised: Exception, said: str) -> None:
    def failing(*_: object) -> int:
        raise raised

    pipelines.work = failing
    result = shell("run", shell.write("a.yaml", GOOD), *QUIET)
    assert result.exit_code == 1
    assert said in result.stderr
    assert result.stderr.count("\n") == 2


@pytest.mark.usefixtures("pipelines")
def test_a_wrong_configuration_is_exit_code_2_before_anything_runs(shell: Shell, pipelines: Pipelines) -> None:
    result = shell("run", shell.write("a.yaml", GOOD.replace("place", "plaice")), *QUIET)
    assert result.exit_code == 2
    assert "a.yaml:6:9: " in result.stderr
    assert "did you mean place?" in result.stderr
    assert pipelines.ran == []


@pytest.mark.usefixtures("pipelines")
@pytest.mark.parametrize(
    "arguments", [["missing.yaml"], ["a.yaml", "--conf", "novalue"], ["a.yaml", "--metrics-port", "x"]]
)
def test_a_wrong_command_line_is_exit_code_2(shell: Shell, arguments: list[str]) -> None:
    shell.write("a.yaml", GOOD)
    assert shell("run", *arguments).exit_code == 2
