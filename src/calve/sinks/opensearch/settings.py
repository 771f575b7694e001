"""The options of the OpenSearch sink, by Data Prepper's keys."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

from calve.errors import SettingsError
from calve.expression import compile_condition, compile_format
from calve.settings import Size, option
from calve.sinks.dead_letters import FolderDeadLetters, prefix
from calve.sinks.opensearch.index_name import check_index

__all__ = ["ACTIONS", "Action", "Authentication", "OpenSearchSettings"]

ACTIONS = ("index", "create", "update", "upsert", "delete")
"""What may be done with a document; in lower or upper case."""
KEYED = frozenset({"update", "upsert", "delete"})
"""Actions that need a `document_id`."""

_HOST = re.compile(r"https?://[^/\s?#@]+(/[^\s?#]*)?")
_LATER = "Not there yet."


def _check_hosts(hosts: list[str]) -> None:
    for host in hosts:
        if "@" in host:
            raise SettingsError("user and password do not belong into an address; give username and password")
        if not _HOST.fullmatch(host):
            raise SettingsError(f"{host[:100]!r} is no address: write https://name:9200")


def _check_action(text: str) -> None:
    static = compile_format(text).static
    if static is not None and static.lower() not in ACTIONS:
        raise SettingsError(
            f"{static[:100]!r} is no action; there are {', '.join(ACTIONS)}, or an expression in ${{…}}"
        )


@dataclass(frozen=True)
class Authentication:
    """User and password."""

    username: str = option(doc="The user.", minimum=1)
    password: str = option(doc="The password.", secret=True)


@dataclass(frozen=True)
class Action:
    """What is done with the events that a condition is true for."""

    type: str = option(doc="`index`, `create`, `update`, `upsert`, `delete`, or an expression.", check=_check_action)
    when: str | None = option(None, "The condition; absent: all events.", check=compile_condition)


@dataclass(frozen=True)
class OpenSearchSettings:
    """Writes events to OpenSearch indexes, each exactly once, older ones never over newer ones."""

    hosts: list[str] = option(
        doc="The nodes, as `https://name:9200`; when one does not answer, the next is asked.",
        minimum=1,
        check=_check_hosts,
    )
    index: str = option(
        doc="The index. With `${…}` it is found for each event; `%{yyyy.MM.dd}` is the day (UTC) of its batch.",
        check=check_index,
    )
    index_type: Literal["custom", "management_disabled"] = option(
        "custom", "`management_disabled`: never touch templates, whatever else is set."
    )
    username: str | None = option(None, "The user, for basic authentication.", minimum=1)
    password: str | None = option(None, "The user's password.", secret=True)
    authentication: Authentication | None = option(None, "User and password; the same as the two keys.")
    cert: str | None = option(None, "The authority that signed the nodes' certificates: a PEM file.", minimum=1)
    insecure: bool = option(False, "Do not check the nodes' certificates.")
    connect_timeout: timedelta = option(timedelta(seconds=10), "How long a connection may take.", unit="ms")
    socket_timeout: timedelta = option(timedelta(seconds=60), "How long an answer may take.", unit="ms")
    document_id: str | None = option(
        None,
        "The document's id, e.g. `${/id}`. Absent, or without a value: one made of the event's place in its source, so "
        "that a replay doubles nothing.",
        check=compile_format,
    )
    document_id_field: str | None = option(None, "An event's field as `document_id`; deprecated.", minimum=1)
    document_version: str | None = option(
        None,
        "A number that grows with each change of a document, e.g. `${/seq}`; an event with a smaller one than the "
        "document has is passed over. Absent: the order of the events themselves.",
        check=compile_format,
    )
    document_version_type: Literal["external", "external_gte"] = option(
        "external_gte", "Whether an event with the very version that the document has is written (`external_gte`)."
    )
    action: str = option(
        "index", "`index`, `create`, `update`, `upsert`, `delete`, or an expression.", check=_check_action
    )
    actions: list[Action] = option(
        [], "Actions by condition; the first that is true counts, one without `when` always."
    )
    routing: str | None = option(None, "What decides on the shard, e.g. `${/tenant}`.", check=compile_format)
    routing_field: str | None = option(None, "An event's field as `routing`; deprecated.", minimum=1)
    pipeline: str | None = option(None, "The ingest pipeline of OpenSearch.", check=compile_format)
    template_type: Literal["v1", "index-template"] = option("v1", "The kind of template.")
    template_content: str | dict[str, Any] | None = option(
        None, "An index template, as JSON or YAML; it is put at the start.", minimum=1
    )
    template_file: Path | None = option(None, "A file with an index template in JSON.")
    number_of_shards: int | None = option(None, "Shards of a new index.", minimum=1)
    number_of_replicas: int | None = option(None, "Replicas of a new index.", minimum=0)
    normalize_index: bool = option(False, "Make index names fit: lower case, without characters that none may have.")
    bulk_size: int = option(5, "MiB of a request at most; -1: up to 64.", minimum=-1, maximum=90)
    flush_timeout: int | timedelta = option(
        timedelta(seconds=60),
        "How long events wait at most before they are written; -1: not at all. What waits when the pipeline starts is "
        "read at once.",
    )
    max_retries: int | None = option(
        None,
        "How often a request is repeated before its documents become dead letters; absent: until it works.",
        minimum=1,
    )
    enable_request_compression: bool = option(False, "Compress requests (gzip).")
    max_batch_bytes: Size = option(Size(64 << 20), "The most that one batch reads from its source.", minimum=1)
    dlq: str | FolderDeadLetters | None = option(
        None, "Where rejected events go: a folder or an object-store prefix. Absent: `<state>/<pipeline>/dlq`."
    )
    dlq_file: str | None = option(None, f"{_LATER} Use `dlq`.", later=True)
    aws: dict[str, Any] | None = option(None, "Requests signed for Amazon OpenSearch Service.", later=True)
    proxy: str | None = option(None, "An HTTP proxy.", later=True)
    distribution_version: Literal["default", "es6"] = option("default", "Elasticsearch 6.", later=True)
    ism_policy_file: str | None = option(None, "An index state management policy.", later=True)
    document_root_key: str | None = option(None, "The field that becomes the document.", later=True)
    script: dict[str, Any] | None = option(None, "A script for updates.", later=True)
    query_lookup: dict[str, Any] | None = option(None, "Look up documents before they are written.", later=True)

    @property
    def login(self) -> tuple[str, str] | None:
        """User and password, or None."""
        if self.authentication:
            return self.authentication.username, self.authentication.password
        return (self.username, self.password or "") if self.username else None

    @property
    def id_text(self) -> str | None:
        """The document's id as a format string."""
        return self.document_id or (f"${{{self.document_id_field}}}" if self.document_id_field else None)

    @property
    def routing_text(self) -> str | None:
        """The routing as a format string."""
        return self.routing or (f"${{{self.routing_field}}}" if self.routing_field else None)

    @property
    def bulk_bytes(self) -> int:
        """The size of a request at most, if no single document is larger."""
        return (self.bulk_size if self.bulk_size > 0 else 64) << 20

    @property
    def flush_seconds(self) -> float:
        """How long events wait at most; a number without a unit means milliseconds."""
        given = self.flush_timeout
        return given.total_seconds() if isinstance(given, timedelta) else max(given, 0) / 1000

    @property
    def template(self) -> dict[str, Any] | None:
        """The template that is configured, without what other keys add to it; None: none.

        Raises:
            SettingsError: It is no JSON object, or cannot be read.
        """
        given: Any = self.template_content
        if given is None and self.template_file is not None:
            try:
                given = self.template_file.read_text()
            except OSError as error:
                raise SettingsError(f"{self.template_file} cannot be read: {error.strerror}") from error
        try:
            found = json.loads(given) if isinstance(given, str) else given
        except ValueError as error:
            raise SettingsError(f"the template is no JSON: {error}") from error
        if found is not None and not isinstance(found, dict):
            raise SettingsError("the template is no JSON object")
        return found

    @property
    def dlq_prefix(self) -> str | None:
        """Where rejected events go, or None for the folder in the state."""
        return prefix(self.dlq.s3 if isinstance(self.dlq, FolderDeadLetters) else self.dlq)

    @property
    def dlq_table(self) -> None:
        """There is no catalog for a table of rejected events."""
        return

    @property
    def counts(self) -> dict[str, int]:
        """The settings of a new index: its shards and replicas, where they are given."""
        given = {"number_of_shards": self.number_of_shards, "number_of_replicas": self.number_of_replicas}
        return {f"index.{name}": count for name, count in given.items() if count is not None}

    @property
    def places(self) -> dict[str, str]:
        """Where the sink stores things, as catalog properties."""
        return {"dlq": self.dlq_prefix or ""}

    def check(self) -> Iterator[tuple[str, str]]:
        """Refuse what cannot be meant together."""
        if self.username and self.authentication:
            yield "authentication", "means the same as username and password; give one"
        if self.password is not None and not self.username:
            yield "password", "needs a username"
        for one, other in (("document_id_field", "document_id"), ("routing_field", "routing")):
            if getattr(self, one) and getattr(self, other):
                yield one, f"means the same as {other}; give one"
        yield from self._check_actions()
        try:
            _ = self.template
        except SettingsError as error:
            yield "template_file" if self.template_content is None else "template_content", str(error)
        if isinstance(self.flush_timeout, int) and self.flush_timeout < -1:
            yield "flush_timeout", "must be a duration, or -1"
        if self.cert and not Path(self.cert).is_file():
            yield "cert", f"the file {self.cert} is not there"
        if self.dlq == "":
            yield "dlq", "names no place; leave it out for <state>/<pipeline>/dlq"

    def _check_actions(self) -> Iterator[tuple[str, str]]:
        given = [("action", self.action)] if not self.actions else []
        given += [(f"actions[{index}].type", one.type) for index, one in enumerate(self.actions)]
        for path, text in given:
            if text.lower() in KEYED and not self.id_text:
                yield path, f"{text} needs a document_id"
        for index, one in enumerate(self.actions[:-1]):
            if one.when is None:
                yield f"actions[{index}]", "has no `when`, so that what follows is never looked at"
        if self.document_version is not None and not self.id_text:
            yield "document_version", "needs a document_id"
