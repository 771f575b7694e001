"""Sends lines to `_bulk`, in requests of bounded size, until each document is accepted or refused."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec
import numpy as np
import pyarrow as pa

from calve import structs
from calve.arrays import RowNumbers, text_buffers
from calve.errors import SinkUnavailableError
from calve.network.backoff import delay
from calve.sinks.opensearch.client import Answer, Client
from calve.sinks.opensearch.obstacles import obstacle, with_field_hint

__all__ = ["Bulk", "Refused", "Sent"]

_FIRST_SECONDS = 0.05
_LONGEST_SECONDS = 5.0
_PATIENCE_SECONDS = 10.0
"""How long a task retries without success; then the batch fails, and the driver retries it."""
_OF_DOCUMENTS = (400, 413)
"""What a whole request is answered because of a document; any other status is the cluster's, or a proxy's before it."""
_CONFLICT = 409
_WITHOUT_ID = "create"
"""The action of documents with Calve's own ids: if the id exists, an earlier try has sent this document."""
_BRIEF = "errors"
_DETAILED = "errors,items.*.status,items.*.error.type,items.*.error.reason,items.*.error.caused_by.reason"
"""The requested part of an answer. Details for each document would cost a node a fifth of the writing. So the answer
has one flag for all, and only after an error the lines are sent again, for details; repeated lines are safe."""


class Refused(NamedTuple):
    """A document that OpenSearch refuses: its line's number, and the reason."""

    row: int
    reason: str


@dataclass
class Sent:
    """The result of sending lines.

    Attributes:
        refused: The documents that OpenSearch refuses permanently.
        superseded: How many were not written because the index has newer ones.
    """

    refused: list[Refused]
    superseded: int = 0


class _Cause(msgspec.Struct):
    reason: str | None = None


class _Error(msgspec.Struct):
    type: str = ""
    reason: str | None = None
    caused_by: _Cause | None = None

    def text(self) -> str:
        parts = (self.type, self.reason, self.caused_by and self.caused_by.reason)
        return ": ".join(dict.fromkeys(part.rstrip(";.") for part in parts if part))


class _Item(msgspec.Struct):
    status: int
    error: _Error | None = None


class _Answer(msgspec.Struct):
    errors: bool
    items: list[dict[str, _Item]]


class _Head(msgspec.Struct):
    errors: bool


class Bulk:
    """Sends lines to one cluster, one request at a time, so that changes of a document stay in order (executor).

    Args:
        client: The client of the cluster.
        size_bytes: The largest size of a request, unless a single document is larger.
        max_retries: How often a request is repeated before its documents are refused; None: until the backoff ends.
        pause: Waits for a number of seconds.
        brief: Request details only after an error; a repeated line must not conflict with itself.
        is_one_index: Whether all documents of the sink go to one index: then what refuses them all is waited for.
    """

    def __init__(
        self,
        client: Client,
        size_bytes: int,
        max_retries: int | None = None,
        pause: Callable[[float], None] = time.sleep,
        brief: bool = True,
        is_one_index: bool = True,
    ) -> None:
        self.client = client
        self._size = size_bytes
        self._brief = brief
        self._details = not brief
        self._max_retries = max_retries
        self._pause = pause
        self._is_one_index = is_one_index

    def send(self, index: str, lines: pa.LargeStringArray) -> Sent:
        """Send lines: each an action and, if it has one, its document, with line feeds.

        Raises:
            SinkUnavailableError: No document is accepted for too long.
            SinkRefusedError: The user is not accepted.
        """
        sent = Sent([])
        path = f"/{quote(index, safe='')}/_bulk?filter_path="
        offsets, _ = text_buffers(lines)
        start = 0
        while start < len(lines):
            end = int(np.searchsorted(offsets, offsets[start] + self._size, "right")) - 1
            end = min(max(end, start + 1), len(lines))
            self._part(path, lines, np.arange(start, end), sent)
            start = end
        return sent

    def ask(self, method: str, path: str, body: bytes) -> Answer:
        """Send a request, and repeat it while the cluster is overloaded.

        Raises:
            SinkUnavailableError: It is overloaded for too long.
            SinkRefusedError: The user is not accepted.
        """
        tries = _Tries(None, self._pause)
        while True:
            answer = self.client.request(method, path, body)
            if not _passes(answer.status):
                return answer
            if not tries.wait(progress=False):
                raise _unavailable(self.client.name, answer.reason)

    def _part(self, path: str, lines: pa.LargeStringArray, rows: RowNumbers, sent: Sent) -> None:
        """Send some lines, and repeat those that failed temporarily."""
        tries = _Tries(self._max_retries, self._pause)
        while len(rows):
            remaining, why = self._once(path, lines, rows, sent)
            if len(remaining) and not tries.wait(progress=len(remaining) < len(rows)):
                self._refuse(remaining, why, sent)
                return
            rows = remaining

    def _once(self, path: str, lines: pa.LargeStringArray, rows: RowNumbers, sent: Sent) -> tuple[RowNumbers, str]:
        """Send lines; return those to repeat, and the reason."""
        try:
            answer = self.client.request("POST", path + (_DETAILED if self._details else _BRIEF), _body(lines, rows))
        except SinkUnavailableError as error:
            return rows, error.message
        if answer.status in (400, 413) and len(rows) > 1:
            for half in np.array_split(rows, 2):  # one document breaks the request, or the request is too large
                self._part(path, lines, half, sent)
            return rows[:0], ""
        if self._brief and answer.status < 300:
            with self.client.understood():
                asked, self._details = self._details, structs.decode(answer.data, _Head).errors
            if self._details and not asked:
                return self._once(path, lines, rows, sent)
        return self._outcome(answer, rows, sent)

    def _outcome(self, answer: Answer, rows: RowNumbers, sent: Sent) -> tuple[RowNumbers, str]:
        """Record permanent refusals; return the lines to repeat, and the reason."""
        if answer.status >= 300 and (answer.status not in _OF_DOCUMENTS or self._passes(answer.status, answer.reason)):
            return rows, answer.reason
        if answer.status >= 300:
            sent.refused += [Refused(int(row), answer.reason) for row in rows]
            return rows[:0], ""
        again, why = [], ""
        with self.client.understood():
            has_errors = structs.decode(answer.data, _Head).errors
            items = structs.decode(answer.data, _Answer).items if has_errors else []
            named = [next(iter(item.items())) for item in items]
            outcomes = list(zip(rows.tolist(), named, strict=True)) if has_errors else []
        for row, (action, item) in outcomes:
            if item.error is None:
                continue
            reason = item.error.text()
            if item.status == _CONFLICT:
                sent.superseded += action != _WITHOUT_ID
            elif self._passes(item.status, reason):
                again.append(row)
                why = reason
            else:
                sent.refused.append(Refused(row, with_field_hint(reason)))
        return np.array(again, np.int64), why

    def _passes(self, status: int, reason: str) -> bool:
        """Return whether a refusal is temporary, or concerns every document."""
        return _passes(status) or obstacle(reason, self._is_one_index) is not None

    def _refuse(self, rows: RowNumbers, why: str, sent: Sent) -> None:
        if self._max_retries is None:
            raise _unavailable(self.client.name, why)
        limit = f"Number of retries reached the limit of max retries (configured value {self._max_retries}"
        sent.refused += [Refused(int(row), f"{limit}. Last exception message: {why})") for row in rows]


class _Tries:
    """Waits between tries, and limits their number."""

    def __init__(self, max_retries: int | None, pause: Callable[[float], None]) -> None:
        self._left = max_retries
        self._pause = pause
        self._failures = 0
        self._waited = 0.0

    def wait(self, progress: bool) -> bool:
        """Wait after a failure; return whether to try again."""
        if progress:
            self._failures, self._waited = 0, 0.0
        if self._left is not None:
            self._left -= 1
        if self._left == -1 or (self._left is None and self._waited >= _PATIENCE_SECONDS):
            return False
        seconds = delay(self._failures, _FIRST_SECONDS, _LONGEST_SECONDS)
        self._pause(seconds)
        self._waited += seconds
        self._failures += 1
        return True


def _body(lines: pa.LargeStringArray, rows: RowNumbers) -> Any:
    """Return the lines' bytes; for consecutive lines a view of the array."""
    if rows[-1] - rows[0] + 1 != len(rows):
        lines, rows = lines.take(pa.array(rows)), np.arange(len(rows))
    offsets, data = text_buffers(lines)
    return data[offsets[rows[0]] : offsets[rows[-1] + 1]]


def _passes(status: int) -> bool:
    """Return whether a status is temporary; 403 means that the cluster accepts no writes at the moment."""
    return status in (403, 408, 429) or status >= 500


def _unavailable(cluster: str, why: str) -> SinkUnavailableError:
    state = obstacle(why)
    return SinkUnavailableError(
        f"OpenSearch at {cluster} accepts no documents: {why}",
        step="write",
        target=cluster,
        hint=state.hint if state else "Calve retries the batch; check the state of the cluster",
    )
