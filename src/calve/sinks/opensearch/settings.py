"""The options of the OpenSearch sink, by Data Prepper's keys."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar, Literal

from calve.dead_letters.settings import FolderDeadLetters, prefix
from calve.errors import SettingsError
from calve.expression import compile_condition, compile_format
from calve.settings import Size, option
from calve.settings.clear_text import exposed
from calve.sinks.opensearch.index_name import check_index
from calve.sinks.opensearch.signature import AwsAccess, is_installed
from calve.sinks.settings import SinkSettings

__all__ = ["ACTIONS", "Action", "AwsSigning", "OpenSearchSettings", "OpenSearchUser"]

ACTIONS = ("index", "create", "update", "upsert", "delete")
"""The actions on documents, in lower or upper case."""
KEYED = frozenset({"update", "upsert", "delete"})
"""Actions that need a `document_id`."""

_HOST = re.compile(r"https?://[^/\s?#@]+(/[^\s?#]*)?")


def _check_hosts(hosts: list[str]) -> None:
    for host in hosts:
        if "@" in host:
            raise SettingsError("an address cannot have user and password; set username and password")
        if not _HOST.fullmatch(host):
            raise SettingsError(f"{host[:100]!r} is not an address: write https://name:9200")


def _check_action(text: str) -> None:
    static = compile_format(text).static
    if static is not None and static.lower() not in ACTIONS:
        raise SettingsError(f"{static[:100]!r} is not an action; use {', '.join(ACTIONS)}, or an expression in ${{…}}")


@dataclass(frozen=True)
class OpenSearchUser:
    """User and password."""

    REFUSED_KEYS: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(
            ("api_token", "client_certificate", "client_key"),
            "is not supported: use username and password, or aws",
        ),
    }

    username: str = option(doc="The user.", minimum=1)
    password: str = option(doc="The password.", secret=True)


@dataclass(frozen=True)
class AwsSigning:
    """Signs requests for Amazon OpenSearch; credentials are those that AWS's own tools find."""

    IGNORED_KEYS: ClassVar[Mapping[str, str]] = {
        "sts_header_overrides": "requests to STS have no headers of their own",
    }
    REFUSED_KEYS: ClassVar[Mapping[str, str]] = {
        "serverless_options": "is not supported: let an administrator grant the collection's network access",
        "semantic_enrichment": "is not supported: an ingest pipeline of the index can do it (pipeline)",
        "resource_name": "is for semantic_enrichment, which is not supported",
    }

    sigv4: bool = option(True, "`false`: requests are not signed.")
    region: str = option("", "The region. Default: that of the environment or the profile.")
    sts_role_arn: str | None = option(None, "A role to assume.", minimum=1)
    sts_external_id: str | None = option(None, "The external id that the role asks for.", minimum=1)
    serverless: bool = option(False, "Whether it is a collection of OpenSearch Serverless.")

    def check(self) -> Iterator[tuple[str, str]]:
        """Refuse a signature without botocore."""
        if self.sigv4 and not is_installed():
            yield "", "needs botocore: pip install 'calve[aws]'"

    @property
    def access(self) -> AwsAccess | None:
        """Who signs; None: nobody."""
        service = "aoss" if self.serverless else "es"
        role, external_id = self.sts_role_arn or "", self.sts_external_id or ""
        return AwsAccess(self.region, service, role, external_id) if self.sigv4 else None


@dataclass(frozen=True)
class Action:
    """The action for events that match a condition."""

    type: str = option(doc="`index`, `create`, `update`, `upsert`, `delete`, or an expression.", check=_check_action)
    when: str | None = option(None, "The condition. Default: all events.", check=compile_condition)


@dataclass(frozen=True)
class OpenSearchSettings(SinkSettings):
    """Writes events to OpenSearch indexes, each exactly once; an older event never overwrites a newer one."""

    IGNORED_KEYS: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(
            ("estimate_bulk_size_using_compression", "max_local_compressions_for_estimation"),
            "bulk_size counts before compression",
        ),
    }
    REFUSED_KEYS: ClassVar[Mapping[str, str]] = {
        "api_token": "is not supported: use username and password, or aws",
        **dict.fromkeys(
            ("aws_region", "aws_sigv4", "aws_sts_role_arn", "aws_sts_external_id", "aws_sts_header_overrides"),
            "is deprecated: write aws: {region: …, sts_role_arn: …}",
        ),
        "serverless": "is deprecated: write aws: {serverless: true}",
        "serverless_options": "is not supported: let an administrator grant the collection's network access",
        "distribution_version": "is not supported: OpenSearch 1 to 3 are written to, no older Elasticsearch",
        "dlq_file": "is dlq here: a folder or an object-store prefix",
        "document_root_key": "is not supported: select_entries chooses fields, rename_keys moves them to the top",
        "ism_policy_file": "is not supported: create the policy in OpenSearch, with an ism_template for the index",
        "path_prefix": "is not supported: write the path into hosts, e.g. https://name:9200/prefix",
        "proxy": "is not supported: name the proxy's own address in hosts",
        "pull_indexing": "is not supported: a sink kafka can feed it",
        "query_lookup": "is not supported: the document's version keeps repeated events out",
        "script": "is not supported: use an action, or an ingest pipeline (pipeline)",
    }

    hosts: list[str] = option(
        doc="The nodes, as `https://name:9200`. If one does not answer, Calve uses the next.",
        minimum=1,
        check=_check_hosts,
    )
    index: str = option(
        doc="The index. With `${…}` each event selects its index; `%{yyyy.MM.dd}` is the date (UTC) of its batch.",
        check=check_index,
    )
    index_type: Literal["custom", "management_disabled"] = option(
        "custom", "`management_disabled`: never create or change templates, whatever else is set."
    )
    username: str | None = option(None, "The user for basic authentication.", minimum=1)
    password: str | None = option(None, "The user's password.", secret=True)
    authentication: OpenSearchUser | None = option(None, "User and password; the same as `username` and `password`.")
    aws: AwsSigning | None = option(
        None, "Signs requests for Amazon OpenSearch Service or Serverless (`pip install 'calve[aws]'`)."
    )
    cert: str | None = option(None, "The CA certificate for the nodes: a PEM file.", minimum=1)
    insecure: bool = option(False, "Do not verify the nodes' certificates.")
    connect_timeout: timedelta = option(timedelta(seconds=10), "Maximum time to connect.", unit="ms")
    socket_timeout: timedelta = option(timedelta(seconds=60), "Maximum time to wait for an answer.", unit="ms")
    document_id: str | None = option(
        None,
        "The document's id, e.g. `${/id}`. Without a value Calve derives an id from the event's position in its "
        "source, so a replay creates no duplicate.",
        check=compile_format,
    )
    document_id_field: str | None = option(
        None,
        "A field with the document's id, or the attribute `document_id`; deprecated, use `document_id`.",
        minimum=1,
    )
    document_version: str | None = option(
        None,
        "A number that grows with each change of a document, e.g. `${/seq}`. An event with a smaller number than the "
        "document's is skipped. Default: the order of the events.",
        check=compile_format,
    )
    document_version_type: Literal["external", "external_gte"] = option(
        "external_gte", "`external_gte` also writes an event with the same version as the document's."
    )
    action: str = option(
        "index", "`index`, `create`, `update`, `upsert`, `delete`, or an expression.", check=_check_action
    )
    actions: list[Action] = option(
        [], "Actions with conditions. The first one whose condition is true is used; one without `when` always matches."
    )
    routing: str | None = option(
        None, "The routing value, which selects the shard, e.g. `${/tenant}`.", check=compile_format
    )
    routing_field: str | None = option(None, "A field with the routing value; deprecated, use `routing`.", minimum=1)
    pipeline: str | None = option(None, "The ingest pipeline in OpenSearch.", check=compile_format)
    template_type: Literal["v1", "index-template"] = option("v1", "The kind of template.")
    template_content: str | dict[str, Any] | None = option(
        None, "An index template, as JSON or YAML. Calve creates it when the pipeline starts.", minimum=1
    )
    template_file: Path | None = option(None, "A file with an index template in JSON.")
    number_of_shards: int | None = option(None, "Shards of a new index.", minimum=1)
    number_of_replicas: int | None = option(None, "Replicas of a new index.", minimum=0)
    normalize_index: bool = option(False, "Make index names valid: lower case, without forbidden characters.")
    bulk_size: int = option(5, "Maximum size of a request in MiB; -1: 64.", minimum=-1, maximum=90)
    flush_timeout: int | timedelta = option(
        timedelta(seconds=60),
        "Maximum time that events wait before they are written; -1: no waiting. Events that wait when the pipeline "
        "starts are read at once.",
    )
    max_retries: int | None = option(
        None,
        "How often a request is retried before its documents become dead letters. Default: without limit.",
        minimum=1,
    )
    enable_request_compression: bool = option(False, "Compress requests (gzip).")
    max_batch_bytes: Size = option(
        Size(64 << 20), "Maximum amount of data that one batch reads from its source.", minimum=1
    )
    dlq: str | FolderDeadLetters | None = option(
        None,
        "The destination of rejected events: a folder or an object-store prefix. Default: `<state>/<pipeline>/dlq`.",
    )

    @property
    def login(self) -> tuple[str, str] | None:
        """User and password, or None."""
        if self.authentication:
            return self.authentication.username, self.authentication.password
        return (self.username, self.password or "") if self.username else None

    @property
    def target_name(self) -> str | None:
        """See `SinkSettings`; documents without an id of their own replace no other."""
        return self.index if self.id_text else None

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
        """The largest size of a request, unless a single document is larger."""
        return (self.bulk_size if self.bulk_size > 0 else 64) << 20

    @property
    def flush_seconds(self) -> float:
        """The longest time that events wait; a number without a unit means milliseconds."""
        given = self.flush_timeout
        return given.total_seconds() if isinstance(given, timedelta) else max(given, 0) / 1000

    @property
    def template(self) -> dict[str, Any] | None:
        """The configured template, without the additions of other options, or None.

        Raises:
            SettingsError: It is not a JSON object, or cannot be read.
        """
        given: Any = self.template_content
        if given is None and self.template_file is not None:
            try:
                given = self.template_file.read_text()
            except OSError as error:
                raise SettingsError(f"{self.template_file} cannot be read: {error.strerror}") from error
        try:
            template = json.loads(given) if isinstance(given, str) else given
        except ValueError as error:
            raise SettingsError(f"the template is not JSON: {error}") from error
        if template is not None and not isinstance(template, dict):
            raise SettingsError("the template is not a JSON object")
        return template

    @property
    def dlq_prefix(self) -> str | None:
        """The location of dead letters, or None for the folder in the state."""
        return prefix(self.dlq)

    @property
    def counts(self) -> dict[str, int]:
        """The settings of a new index: its shards and replicas, if they are set."""
        given = {"number_of_shards": self.number_of_shards, "number_of_replicas": self.number_of_replicas}
        return {f"index.{name}": count for name, count in given.items() if count is not None}

    def doubts(self) -> Iterator[tuple[str, str]]:
        """Warn of a password that others can read."""
        messages = [exposed(host, self.insecure) for host in self.hosts] if self.login else []
        yield from ((f"hosts[{index}]", message) for index, message in enumerate(messages) if message)

    def check(self) -> Iterator[tuple[str, str]]:
        """Refuse options that exclude each other."""
        if self.username and self.authentication:
            yield "authentication", "means the same as username and password; set only one"
        if self.aws and self.aws.sigv4 and self.login:
            yield "aws", "signs requests, which then have no user and password; set only one"
        if self.password is not None and not self.username:
            yield "password", "needs a username"
        for name, other in (("document_id_field", "document_id"), ("routing_field", "routing")):
            if getattr(self, name) and getattr(self, other):
                yield name, f"means the same as {other}; set only one"
        yield from self._check_actions()
        try:
            _ = self.template
        except SettingsError as error:
            yield "template_file" if self.template_content is None else "template_content", str(error)
        if isinstance(self.flush_timeout, int) and self.flush_timeout < -1:
            yield "flush_timeout", "must be a duration, or -1"
        if self.cert and not Path(self.cert).is_file():
            yield "cert", f"the file {self.cert} does not exist"
        if self.dlq == "":
            yield "dlq", "needs a location; leave it out for <state>/<pipeline>/dlq"

    def _check_actions(self) -> Iterator[tuple[str, str]]:
        given = [("action", self.action)] if not self.actions else []
        given += [(f"actions[{index}].type", action.type) for index, action in enumerate(self.actions)]
        for path, text in given:
            if text.lower() in KEYED and not self.id_text:
                yield path, f"{text} needs a document_id"
        for index, action in enumerate(self.actions[:-1]):
            if action.when is None:
                yield f"actions[{index}]", "has no `when`, so the following actions are never used"
        if self.document_version is not None and not self.id_text:
            yield "document_version", "needs a document_id"


SETTINGS = OpenSearchSettings
