"""A JVM that does not start says why, without its stack; one that does is heard as before."""

from __future__ import annotations

import subprocess

import pytest

from calve.engine.jvm.output import JvmOutput

STACK = """\
Picked up JAVA_TOOL_OPTIONS: -Dx
Exception in thread "main" org.apache.spark.SparkException: Master must be one that is known
\tat org.apache.spark.deploy.SparkSubmit.error(SparkSubmit.scala:1065)
\t... 3 more
"""


@pytest.mark.parametrize(
    ("printed", "reason"),
    [
        (STACK, "Master must be one that is known"),
        (
            "# There is insufficient memory\nInvalid maximum heap size: -Xmxabc\nError: x\n",
            "Invalid maximum heap size: -Xmxabc",
        ),
        ("", None),
    ],
)
def test_the_reason_is_one_line_and_nothing_else_is_shown(
    printed: str, reason: str | None, capfd: pytest.CaptureFixture[str]
) -> None:
    output = JvmOutput()
    subprocess.run(["printf", "%s", printed], stdout=output.pipe, stderr=output.pipe, check=True)
    output.read()
    assert output.reason() == reason
    assert capfd.readouterr() == ("", "")


def test_what_was_held_back_is_shown_once_it_has_started(capfd: pytest.CaptureFixture[str]) -> None:
    output = JvmOutput()
    with subprocess.Popen(["sh", "-c", "echo before; read line; echo after"], stdin=-1, stdout=output.pipe) as process:
        output.read()
        output.started()
        process.communicate(b"\n")
    output.ended()
    assert capfd.readouterr() == ("", "before\nafter\n")
