"""Says in a few words why a server did not answer a request of urllib3."""

from __future__ import annotations

from urllib3.exceptions import NameResolutionError, TimeoutError

__all__ = ["no_answer"]


def no_answer(raised: BaseException) -> str:
    """Return what the operating system says of it; else whether the name or the time was the reason."""
    if isinstance(raised, NameResolutionError):
        return "the host name is unknown"
    cause: BaseException | None = raised
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
        cause = cause.__cause__ or cause.__context__
    return "no answer in time" if isinstance(raised, TimeoutError) else str(raised) or type(raised).__name__
