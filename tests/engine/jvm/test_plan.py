"""How the JVM is started: settings, class path, variables."""

from __future__ import annotations

import locale
import os
from pathlib import Path

import pytest

from calve.engine.jvm.plan import JvmPlan, merged


def test_added_jars_are_the_end_of_the_class_path_whose_beginning_the_archive_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SPARK_DIST_CLASSPATH", "hadoop/*")
    assert (
        JvmPlan("local", {}, [], [Path("/aws.jar")]).environment(Path("/own"))["SPARK_DIST_CLASSPATH"]
        == "hadoop/*:/aws.jar"
    )
    assert JvmPlan("local", {}, [], []).environment(Path("/own"))["SPARK_DIST_CLASSPATH"] == "hadoop/*"


@pytest.mark.parametrize(
    ("encoding", "variables"), [("ANSI_X3.4-1968", {"LC_ALL": "C.UTF-8"}), ("UTF-8", {}), ("utf8", {})]
)
def test_java_opens_files_of_any_name_whatever_the_locale(
    monkeypatch: pytest.MonkeyPatch, encoding: str, variables: dict[str, str]
) -> None:
    monkeypatch.delenv("LC_ALL", raising=False)
    monkeypatch.setattr(locale, "getencoding", lambda: encoding)
    environment = JvmPlan("local", {}, [], []).environment(Path("/own"))
    assert {name: value for name, value in environment.items() if name == "LC_ALL"} == variables


def test_a_users_settings_win_and_his_jars_are_added() -> None:
    ours = {"spark.driver.extraClassPath": "a.jar", "spark.driver.memory": "1g"}
    theirs = {"spark.driver.extraClassPath": "b.jar", "spark.driver.memory": "4g", "spark.x": "y"}
    joined = os.pathsep.join(["a.jar", "b.jar"])
    assert merged(ours, theirs) == theirs | {"spark.driver.extraClassPath": joined}
