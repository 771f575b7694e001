"""Changes documents that must be read first: create, update and upsert become complete documents with a version.

OpenSearch's own `create` and `update` have no external versions: repeated after a later change, they would apply twice.
So a document is read with its version, changed here, and written completely.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import msgspec

from calve import structs
from calve.errors import SinkUnavailableError
from calve.sinks.opensearch.bulk import Bulk, Refused

__all__ = ["Reviser", "Step", "merged"]

_EXISTS = "version_conflict_engine_exception: a document with this id exists already"
_Key = tuple[str | None, str | None]
_NO_INDEX = "index_not_found_exception"
_MISSING = "document_missing_exception: there is no document with this id"


@dataclass(frozen=True)
class Step:
    """One event: its action and document; `fault`: it is rejected, `line`: no document must be read."""

    fault: str | None
    action: str
    id: str | None
    routing: str | None
    pipeline: str | None
    version: int
    document: str
    line: str | None

    @property
    def reads(self) -> bool:
        """Whether its document must be read first."""
        return self.fault is None and self.line is None


@dataclass
class _Current:
    """The current state of a document; without a source it does not exist."""

    version: int = -1
    source: bytes | None = None


class _Found(msgspec.Struct):
    found: bool = False
    version: int = msgspec.field(default=-1, name="_version")
    source: msgspec.Raw = msgspec.field(default=msgspec.Raw(), name="_source")
    error: dict[str, str] = {}


class _Documents(msgspec.Struct):
    docs: list[_Found] = []


class Reviser:
    """Turns the steps of one index into lines, in their order (executor).

    Args:
        bulk: Reads documents.
        index: The index.
        version_type: The version type of every line.
    """

    def __init__(self, bulk: Bulk, index: str, version_type: str) -> None:
        self._bulk = bulk
        self._path = (
            f"/{quote(index, safe='')}/_mget?filter_path=docs._id,docs.found,docs._version,docs._source,docs.error.type"
        )
        self._version_type = version_type
        self._current: dict[_Key, _Current] = {}
        self.superseded = 0

    def revise(self, steps: Sequence[Step]) -> Iterator[str | Refused | None]:
        """Yield a line for each step; None if it is rejected, done already, or older than the document."""
        self._read({(reading.id, reading.routing) for reading in steps if reading.reads})
        for row, step in enumerate(steps):
            yield self._revised(row, step) if step.id is not None and step.fault is None else step.line

    def _revised(self, row: int, step: Step) -> str | Refused | None:
        current = self._current.setdefault((step.id, step.routing), _Current())
        source: bytes | None = None if step.action == "delete" else step.document.encode()
        if step.reads:
            if self._is_done(step, current):
                self.superseded += 1
                return None
            if step.action == "create" and current.source is not None:
                return Refused(row, _EXISTS)
            if step.action == "update" and current.source is None:
                return Refused(row, _MISSING)
            if current.source is not None:
                source = merged(current.source, step.document.encode())
        if step.version >= current.version:
            current.version, current.source = step.version, source
        return step.line if source is None or step.line else self._line(step, source)

    def _is_done(self, step: Step, current: _Current) -> bool:
        """Return whether an earlier try has done this step, or the document has a later change."""
        if current.source is None:
            return False
        if step.action == "create":  # a later version: created by another event, or changed since; if unclear, reject
            return current.version == step.version
        return current.version > step.version or (current.version == step.version and self._version_type == "external")

    def _line(self, step: Step, source: bytes) -> str:
        header: dict[str, Any] = {"_id": step.id, "version": step.version, "version_type": self._version_type}
        header |= {"routing": step.routing} if step.routing else {}
        header |= {"pipeline": step.pipeline} if step.pipeline else {}
        return f"{msgspec.json.encode({'index': header}).decode()}\n{source.decode()}\n"

    def _read(self, wanted: set[_Key]) -> None:
        """Read the documents that are not read yet."""
        keys = [key for key in wanted if key not in self._current]
        if not keys:
            return
        asked = [{"_id": id_, **({"routing": routing} if routing else {})} for id_, routing in keys]
        answer = self._bulk.ask("POST", self._path, msgspec.json.encode({"docs": asked}))
        with self._bulk.client.understood():
            docs = structs.decode(answer.data, _Documents).docs if answer.status == 200 else []
        wrong = next((doc.error["type"] for doc in docs if doc.error.get("type", _NO_INDEX) != _NO_INDEX), "")
        if wrong or len(docs) != len(keys):
            raise SinkUnavailableError(
                f"Documents of OpenSearch cannot be read: {wrong or f'status {answer.status}'}",
                step="write",
                target=self._path.split("/")[1],
                hint="Calve retries the batch; check the state of the index, and the user's permissions",
            )
        for key, document in zip(keys, docs, strict=True):
            self._current[key] = _Current(document.version, bytes(document.source) if document.found else None)


def merged(old: bytes, new: bytes) -> bytes:
    """Merge the fields of a partial document into an old one; objects field by field, other values completely."""
    fields = msgspec.json.decode(old, type=dict[str, msgspec.Raw])
    for name, value in msgspec.json.decode(new, type=dict[str, msgspec.Raw]).items():
        before = fields.get(name)
        both = before is not None and _is_object(before) and _is_object(value)
        fields[name] = msgspec.Raw(merged(bytes(before), bytes(value))) if both and before is not None else value
    return msgspec.json.encode(fields)


def _is_object(value: msgspec.Raw) -> bool:
    return bytes(value).lstrip()[:1] == b"{"
