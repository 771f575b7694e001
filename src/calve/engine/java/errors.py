"""Converts Java's exceptions to Calve's errors.

The Java class decides, never the text of the message.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors.exceptions.captured import CapturedException

from calve.credentials import in_short, without_credentials
from calve.engine.java.error_classes import BY_CLASS, BY_GENERAL_CLASS, refusal
from calve.engine.pyspark_private import java_exception_of, jvm_process
from calve.errors import (
    CalveError,
    CommitError,
    EngineError,
    InvariantError,
    SchemaConflictError,
    UnprocessableError,
    Verdict,
    WriteError,
)

__all__ = [
    "JAVA_ERRORS",
    "called",
    "caused_by",
    "innermost_message",
    "java_errors",
    "java_exception",
    "jvm_error",
    "unforeseen_errors",
]

_LONGEST_MESSAGE = 2000
_OBJECT = re.compile(r"(?:[\w$]+\.)*([\w$]+)@[0-9a-f]{4,8}\b")
"""Java's name of an object without a text: its class, and a number, which differs each time."""
_NOISE = re.compile(r" in the chain \w+[:(].*|; For more details see:.*")
"""The list of all places where AWS's client looks for keys or a region; Hadoop's link to its wiki."""
_TRACEBACK = "Traceback (most recent call last)"
_MUTE = {"ConnectException": "the connection was refused", "ClosedChannelException": "the connection was closed"}
"""Words for exceptions that often have no message."""


JAVA_ERRORS = (Py4JError, CapturedException, ConnectionError)
_UNFORESEEN = (InvariantError, CommitError, SchemaConflictError)
"""The errors of Java exceptions that concern neither a server nor permissions."""


@contextmanager
def java_errors(step: str, target: str = "") -> Iterator[None]:
    """Convert all errors of a block that calls the JVM to Calve's."""
    try:
        yield
    except JAVA_ERRORS as error:
        raise jvm_error(error, step=step, target=target) from error


@contextmanager
def unforeseen_errors(step: str, target: str = "") -> Iterator[None]:
    """Raise unexpected errors as errors that the block's input may cause.

    Calve's errors pass, and so do Java's about a server, permissions or other writers.

    Raises:
        UnprocessableError: All other errors.
    """
    try:
        with java_errors(step, target):
            yield
    except CalveError as error:
        if not isinstance(error.__cause__, JAVA_ERRORS) or type(error) not in _UNFORESEEN:
            raise
        raise UnprocessableError(
            error.message, step=step, target=target, hint=error.hint, evidence=traceback.format_exc()
        ) from error
    except Exception as error:
        message = in_short(error, _LONGEST_MESSAGE)
        raise UnprocessableError(message, step=step, target=target, evidence=traceback.format_exc()) from error


def jvm_error(error: Exception, *, step: str = "", target: str = "") -> CalveError:
    """Convert an error of py4j to Calve's, with a message of one line."""
    thrown = java_exception(error)
    if thrown is None and _answers(error):
        return InvariantError(f"py4j: {error}", step=step, target=target)
    if thrown is None:
        return EngineError(
            f"The JVM of Spark does not answer ({type(error).__name__})",
            step=step,
            target=target,
            hint="Start again; if it was killed for lack of memory, use smaller batches or a larger machine",
        )
    chain = [(throwable, list(_class_names(throwable))) for throwable in _causes(thrown)]
    causes = [throwable for throwable, _ in chain]
    lasting = next(filter(None, (refusal(*link) for link in chain)), None)
    for table in (BY_CLASS, BY_GENERAL_CLASS):
        for throwable, names in chain:
            name = next((name for name in names if name in table), None)
            if name is None:
                continue
            kind, hint = table[name]
            if issubclass(kind, WriteError) and kind.verdict is Verdict.AGAIN:
                kind, hint = lasting or (kind, hint)
            return kind(_message(causes, throwable, target), step=step, target=target, hint=hint)
    kind, hint = lasting or (InvariantError, "")
    return kind(_message(causes, causes[0], target), step=step, target=target, hint=hint)


def _answers(error: Exception) -> bool:
    """Return whether the JVM still runs: after its end py4j also reports that classes do not exist."""
    process = jvm_process()
    is_gone = process is not None and process.poll() is not None
    return not is_gone and not isinstance(error, (Py4JNetworkError, ConnectionError))


def java_exception(error: Exception) -> Any:
    """Return the Java exception behind a Python one, or None; PySpark wraps some classes in exceptions of its own."""
    if isinstance(error, Py4JJavaError):
        return error.java_exception
    return java_exception_of(error) if isinstance(error, CapturedException) else None


def innermost_message(error: Exception) -> str:
    """Return the reason of a failure as one line: the innermost Java exception's."""
    thrown = java_exception(error)
    if thrown is not None:
        return _line(list(_causes(thrown))[-1])
    return _reason(type(error).__name__, str(error))


def caused_by(error: Exception, *names: str) -> bool:
    """Return whether an exception of one of these Java classes (by full name) is behind a Python one."""
    class_names = (name for throwable in _causes(java_exception(error)) for name in _class_names(throwable))
    return any(name in names for name in class_names)


def _causes(throwable: Any) -> Iterator[Any]:
    for _ in range(20):  # a bound: chains may be circular
        if throwable is None:
            return
        yield throwable
        throwable = throwable.getCause()


def _class_names(throwable: Any) -> Iterator[str]:
    kind = throwable.getClass()
    while kind is not None:
        yield kind.getName()
        kind = kind.getSuperclass()


def _message(chain: list[Any], throwable: Any, target: str) -> str:
    """Return the failure, its target, and the innermost cause if it adds something, as one line."""
    text = _line(throwable)
    cause = _line(chain[-1])
    if chain[-1] is not throwable and cause not in text:
        text = f"{text} ({cause})"
    text = without_credentials(text)  # half a secret would not be known
    text = text if len(text) <= _LONGEST_MESSAGE else text[: _LONGEST_MESSAGE - 1] + "…"
    return f"{target}: {text}" if target and target not in text else text


def _line(throwable: Any) -> str:
    return _reason(throwable.getClass().getSimpleName(), throwable.getMessage() or "")


def _reason(name: str, message: str) -> str:
    text = _NOISE.sub("", _OBJECT.sub(r"\1", message))
    lines = [line.strip().rstrip(".") for line in text.splitlines() if line.strip()]
    if not lines:
        return _MUTE.get(name, name)
    is_python = any(line.startswith(_TRACEBACK) for line in lines[:2])
    line = lines[-1] if is_python else lines[0]  # Python's reason comes last
    return line if " " in line else f"{name}: {line}"


def called(java: Any, method: str, *arguments: Any) -> Any:
    """Call a method of a Java object with texts, numbers, Java objects or None; raises what py4j raises.

    py4j alone asks each converter of PySpark about each argument, which takes as long as the rest of the call.
    """
    member = getattr(java, method)
    member.converters = ()
    return member(*arguments)
