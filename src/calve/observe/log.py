"""The log: `2026-01-31T09:15:02Z pipeline message` for people, one JSON object per line for machines.

A message has names, counts and reasons, never a secret, and no value of a row except a shortened one in a reason. The
keys of a JSON line are constant: `time`, `level`, `pipeline`, `message`, and the fields that the caller names.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from datetime import UTC, datetime
from typing import Any

import msgspec

from calve.credentials import remember, without_credentials
from calve.errors import CalveError, InvariantError
from calve.observe.terminal import Terminal

__all__ = ["HumanFormatter", "JsonFormatter", "Log", "TerminalHandler", "configure", "dismiss", "listen"]

ROOT = "calve"
_FOLDERS = ("PWD", "OLDPWD")
"""Variables that are named like a password, and have the folder of the shell."""
_NOT_ASCII = re.compile(r"[^\x20-\x7e]")
NOISY = ("py4j", "pyspark", "uvicorn", "pyiceberg", "urllib3", "botocore", "s3fs", "fsspec", "asyncio")


class Log:
    """The log of one pipeline, or without a name of the whole process.

    The keyword arguments are fields of the JSON line; people see the message only, so it says everything that matters.
    `values` is none of them: it is the part of the message that has values of rows, for those who may not see them.
    """

    def __init__(self, pipeline: str = "") -> None:
        self.pipeline = pipeline
        self._logger = logging.getLogger(ROOT)
        self._warned: dict[object, object] = {}

    def debug(self, message: str, **fields: Any) -> None:
        """Log a message that only `--debug` shows."""
        self._write(logging.DEBUG, message, fields)

    def info(self, message: str, **fields: Any) -> None:
        """Log an event."""
        self._write(logging.INFO, message, fields)

    def warning(self, message: str, **fields: Any) -> None:
        """Log a problem that does not stop the pipeline."""
        self._write(logging.WARNING, message, fields)

    def warning_once(self, message: str, key: object = None, **fields: Any) -> None:
        """Log a problem, and no further one with the same key; without a key the message is it. Any thread may."""
        call = object()
        if self._warned.setdefault(message if key is None else key, call) is call:
            self.warning(message, **fields)

    def error(self, error: CalveError, **fields: Any) -> None:
        """Log an error once, where it is handled; the traceback is shown only with `--debug`."""
        described = {key: value for key, value in error.to_dict().items() if key in ("error", "step", "target", "hint")}
        values = error.message if isinstance(error, InvariantError) else ""  # nobody knows what is in it
        self._write(logging.ERROR, error.message, {**described, "values": values, **fields}, error)

    def _write(self, level: int, message: str, fields: dict[str, Any], error: BaseException | None = None) -> None:
        values = fields.pop("values", "")
        extra = {"calve_pipeline": self.pipeline, "calve_fields": fields, "calve_values": values}
        cause = error if self._logger.isEnabledFor(logging.DEBUG) else None
        self._logger.log(level, "%s", message, extra=extra, exc_info=cause)


class HumanFormatter(logging.Formatter):
    """`2026-01-31T09:15:02Z orders message. Hint`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one record as a line."""
        fields = getattr(record, "calve_fields", {})
        pipeline = getattr(record, "calve_pipeline", "")
        word = {logging.WARNING: "warning: ", logging.ERROR: "error: "}.get(record.levelno, "")
        hint = f". {fields['hint']}" if fields.get("hint") else ""
        clock = datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        cause = f"\n{self.formatException(record.exc_info)}" if record.exc_info else ""
        message = without_credentials(f"{record.getMessage()}{hint}{cause}")
        return " ".join(part for part in (clock, pipeline, f"{word}{message}") if part)


class JsonFormatter(logging.Formatter):
    """One JSON object with constant keys; `time` is UTC."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one record as a line."""
        said = {"message": record.getMessage(), **getattr(record, "calve_fields", {})}
        if record.exc_info:
            said["traceback"] = self.formatException(record.exc_info)
        head = {
            "time": datetime.fromtimestamp(record.created, UTC),
            "level": record.levelname.lower(),
            "pipeline": getattr(record, "calve_pipeline", ""),
        }
        text = msgspec.json.encode(head | _cleaned(msgspec.to_builtins(said, enc_hook=str))).decode()
        return text if text.isprintable() else _NOT_ASCII.sub(_escaped, text)


def _escaped(char: re.Match[str]) -> str:
    """Return a character of a JSON string so that it cannot control a terminal."""
    return char[0] if char[0].isprintable() else json.dumps(char[0])[1:-1]


def _cleaned(value: Any) -> Any:
    """Return JSON values without credentials in their texts."""
    match value:
        case str():
            return without_credentials(value)
        case list():
            return [_cleaned(inner) for inner in value]
        case dict():
            return {key: _cleaned(inner) for key, inner in value.items()}
        case _:
            return value


class TerminalHandler(logging.Handler):
    """Writes records above the live line."""

    def __init__(self, terminal: Terminal) -> None:
        super().__init__()
        self._terminal = terminal

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        self._terminal.line(self.format(record))


class _DefaultHandler(logging.StreamHandler[Any]):
    """Writes warnings and errors to stderr for a program that has set up no logging.

    Python does so only while a logger has no handler at all.
    """

    def __init__(self) -> None:
        super().__init__(sys.stderr)
        self.setLevel(logging.WARNING)
        self.setFormatter(HumanFormatter())


def listen(handler: logging.Handler) -> None:
    """Let a handler have every record from now on, until `configure` is called or it is dismissed."""
    calve = logging.getLogger(ROOT)
    if not calve.hasHandlers():
        calve.addHandler(_DefaultHandler())
    calve.addHandler(handler)


def dismiss(handler: logging.Handler) -> None:
    """Give a handler no more records."""
    calve = logging.getLogger(ROOT)
    calve.removeHandler(handler)
    if [type(other) for other in calve.handlers] == [_DefaultHandler]:
        calve.handlers.clear()


def configure(terminal: Terminal | None = None, *, json: bool = False, debug: bool = False) -> Terminal:
    """Set up logging to stderr, once per process, and make other libraries quiet."""
    remember({name: value for name, value in os.environ.items() if name not in _FOLDERS})
    terminal = terminal or Terminal(sys.stderr)
    handler = TerminalHandler(terminal)
    handler.setFormatter(JsonFormatter() if json else HumanFormatter())
    calve = logging.getLogger(ROOT)
    calve.handlers[:] = [handler]
    calve.propagate = False
    calve.setLevel(logging.DEBUG if debug else logging.INFO)
    for name in NOISY:
        logging.getLogger(name).setLevel(logging.WARNING if debug else logging.CRITICAL)
    return terminal
