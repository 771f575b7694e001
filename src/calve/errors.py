"""The error tree of Calve: what failed, where, what to do, and one verdict that policy reads.

Rows never raise: a bad event becomes a reject. Errors pickle, and executors return them as data (`to_dict`), because
Spark erases exception types at its borders.
"""

from __future__ import annotations

import enum
from typing import Any, ClassVar

from calve.credentials import without_credentials

__all__ = [
    "CalveError",
    "CommitConflictError",
    "CommitError",
    "CommitUnknownError",
    "ConvertError",
    "EngineError",
    "InvariantError",
    "MaintenanceError",
    "NoTargetError",
    "NothingFoundError",
    "OvertakenError",
    "PositionLostError",
    "RouteError",
    "RunError",
    "SchemaConflictError",
    "SettingsError",
    "SetupError",
    "SinkRefusedError",
    "SinkUnavailableError",
    "SourceError",
    "SourceUnavailableError",
    "UnprocessableError",
    "UnsupportedError",
    "Verdict",
    "WorkerLostError",
    "WriteError",
]


class Verdict(enum.Enum):
    """What policy does about an error; nobody matches strings."""

    AGAIN = "again"  # try again, bounded and backed off
    LOOK = "look"  # find out what happened, then as AGAIN
    ASK = "ask"  # hold this target and tell the operator
    STOP = "stop"  # the pipeline ends


class CalveError(Exception):
    """One failure in one sentence, with the step it happened in, its target and the way out; without credentials.

    Args:
        message: What failed, as a sentence without a final full stop.
        step: The part of the path, e.g. `read`, `convert`, `write`, `commit`.
        target: The table, topic, file or address that is concerned.
        hint: The command or setting that helps.
    """

    verdict: ClassVar[Verdict] = Verdict.STOP

    def __init__(self, message: str, *, step: str = "", target: str = "", hint: str = "") -> None:
        self.message, self.target, self.hint = map(without_credentials, (message, target, hint))
        super().__init__(self.message)
        self.step = step

    def __str__(self) -> str:
        return f"{self.message}. {self.hint}" if self.hint else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self).__name__, self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """Return the error as JSON values; `from_dict` is the way back."""
        return {
            "error": type(self).__name__,
            "message": self.message,
            "step": self.step,
            "target": self.target,
            "hint": self.hint,
        }

    @staticmethod
    def from_dict(data: dict[str, Any]) -> CalveError:
        """Rebuild an error that an executor returned; an unknown name is a bug and comes back as `InvariantError`."""
        return _rebuild(data["error"], data)


class SettingsError(CalveError):
    """The configuration is wrong; told before Spark starts."""


class EngineError(CalveError):
    """Java, Spark or a jar is missing or does not start."""


class SourceError(CalveError):
    """A source cannot go on."""


class SourceUnavailableError(SourceError):
    """A source does not answer at the moment."""

    verdict = Verdict.AGAIN


class NothingFoundError(SourceError):
    """A run with `once` found no file at all to read, now or ever."""


class PositionLostError(SourceError):
    """What a source should read next is gone; never reloaded silently."""

    verdict = Verdict.ASK


class RouteError(CalveError):
    """Events cannot be given a target."""

    verdict = Verdict.ASK


class NoTargetError(RouteError):
    """A table that a pipeline needs does not exist and may not be created."""


class ConvertError(CalveError):
    """Events cannot be converted as a whole."""

    verdict = Verdict.ASK


class SchemaConflictError(ConvertError):
    """A table's schema cannot become what the events need."""


class WriteError(CalveError):
    """Files cannot be written."""

    verdict = Verdict.AGAIN


class SinkUnavailableError(WriteError):
    """A catalog or a storage does not answer at the moment."""


class SinkRefusedError(WriteError):
    """Authentication failed on either side, or the user may not do what is needed."""

    verdict = Verdict.ASK


class SetupError(WriteError):
    """What the settings name is missing or may not be used. Every event needs it, and trying again does not help."""

    verdict = Verdict.ASK


class UnsupportedError(WriteError):
    """A table asks for files that Calve cannot write; it is held, and others go on."""

    verdict = Verdict.ASK


class WorkerLostError(WriteError):
    """A Python worker of Spark ended: killed, out of memory, or because of an event that it was given."""


class CommitError(CalveError):
    """A commit failed for good on one table, which is held."""

    verdict = Verdict.ASK


class CommitConflictError(CommitError):
    """Another writer was faster; look at the table again, then retry."""

    verdict = Verdict.AGAIN


class CommitUnknownError(CommitError):
    """The catalog's answer never came; look whether the commit is there, delete nothing."""

    verdict = Verdict.LOOK


class OvertakenError(CommitError):
    """Another driver runs this pipeline."""

    verdict = Verdict.STOP


class MaintenanceError(CalveError):
    """A table could not be compacted, converted or cleaned; later it may be, and the flow goes on."""

    verdict = Verdict.AGAIN


class RunError(CalveError):
    """Pipelines of a run failed; the others have run to their end.

    Args:
        reports: What each pipeline did, by name (`observe.report.PipelineReport`).
    """

    def __init__(
        self, message: str, *, step: str = "", target: str = "", hint: str = "", reports: dict[str, Any] | None = None
    ) -> None:
        super().__init__(message, step=step, target=target, hint=hint)
        self.reports = reports or {}


class InvariantError(CalveError):
    """A bug in Calve; the evidence is kept."""


class UnprocessableError(InvariantError):
    """A step failed in a way that nobody foresaw, so that the events may be the reason: the quarantine looks for them.

    Args:
        sink: The number of the sink that failed; None: not known.
        evidence: The traceback, for the bug report.
    """

    def __init__(
        self,
        message: str,
        *,
        step: str = "",
        target: str = "",
        hint: str = "",
        sink: int | None = None,
        evidence: str = "",
    ) -> None:
        super().__init__(message, step=step, target=target, hint=hint)
        self.sink = sink
        self.evidence = evidence

    def to_dict(self) -> dict[str, Any]:
        """Return the error as JSON values, with the sink and the evidence."""
        return {**super().to_dict(), "sink": self.sink, "evidence": self.evidence}


def _rebuild(name: str, data: dict[str, Any]) -> CalveError:
    kind = globals().get(name)
    if not (isinstance(kind, type) and issubclass(kind, CalveError)):
        kind = InvariantError
    return kind(data["message"], **{key: value for key, value in data.items() if key not in ("error", "message")})
