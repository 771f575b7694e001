"""An exception of Java is one line that a user can read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from calve.engine.java import errors


def thrown(name: str, message: str | None) -> Any:
    kind = SimpleNamespace(getSimpleName=lambda: name)
    return SimpleNamespace(getClass=lambda: kind, getMessage=lambda: message)


@pytest.mark.parametrize(
    ("name", "message", "line"),
    [
        (
            "SdkClientException",
            "Unable to load credentials from any of the providers in the chain AwsChain(a=[B(), C()]) : [B(): no, C(): no]",
            "Unable to load credentials from any of the providers",
        ),
        ("SdkClientException", "Unable to load region in the chain Regions: [A: no.]", "Unable to load region"),
        ("ConnectException", "no route; For more details see:  http://wiki/X", "no route"),
        ("ConnectException", None, "the connection was refused"),
        ("OtherException", "", "OtherException"),
        ("KeyException", "id", "KeyException: id"),
        (
            "PythonException",
            "An exception was thrown from the Python worker.\nTraceback (most recent call last):\n  File x\nValueError: no id",
            "ValueError: no id",
        ),
    ],
)
def test_lists_of_all_that_was_tried_are_left_out(name: str, message: str | None, line: str) -> None:
    assert errors._line(thrown(name, message)) == line


def test_pysparks_own_error_of_a_function_has_the_functions_reason() -> None:
    text = "\n  An exception was thrown from the Python worker.\nTraceback (most recent call last):\n  File x\nValueError: no\n"
    assert errors.innermost_message(RuntimeError(text)) == "ValueError: no"
