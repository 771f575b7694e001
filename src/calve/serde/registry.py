"""The client of a schema registry with Confluent's API; runs on executors, and on the driver for checks.

https://docs.confluent.io/platform/current/schema-registry/develop/api.html
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec
import urllib3
from urllib3.exceptions import HTTPError, InsecureRequestWarning, SSLError

from calve.errors import SourceError, SourceUnavailableError
from calve.event.envelope.schema import tags_of
from calve.network.bounded_http import BoundedServer, HeaderError, basic_login
from calve.network.no_answer import no_answer
from calve.serde.format import WriterSchema
from calve.serde.settings import SchemaSettings

__all__ = ["Registry"]

_NOT_FOUND = (40401, 40402, 40403)
"""The registry's codes for an unknown subject, version and id. A 404 without one is not the registry's answer."""
_DENIED = (401, 403)
_MOST_REFERENCES, _MOST_DEPTH, _MOST_REFERRED = 1000, 32, 10_000
_MOST_VERSIONS = 10_000
_MOST_BYTES = 8 << 20
"""No registry has such a schema; more is an attack on the memory."""


class Registry:
    """Asks one registry; keeps the schemas that it found, which never change.

    Args:
        settings: Its address, and how to log in; `certificate` is the content of the file.
    """

    def __init__(self, settings: SchemaSettings) -> None:
        self.url = str(settings.registry_url).rstrip("/")
        self._prefix = urlsplit(self.url).path
        tls: dict[str, Any] = {}
        if self.url.startswith("https:"):
            tls = {"cert_reqs": "CERT_NONE", "assert_hostname": False} if settings.insecure else {}
            if settings.certificate and not settings.insecure:
                tls["ssl_context"] = ssl.create_default_context(cadata=settings.certificate)
        if settings.insecure:  # the user set it
            urllib3.disable_warnings(InsecureRequestWarning)
        seconds = settings.timeout.total_seconds()
        self._server = BoundedServer(self.url, seconds, seconds, **tls)
        self._headers = {"accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if settings.schema_registry_api_key is not None:
            self._headers |= basic_login(settings.schema_registry_api_key, settings.schema_registry_api_secret or "")
        if settings.bearer_token is not None:
            self._headers["authorization"] = f"Bearer {settings.bearer_token}"
        self._schemas: dict[int, WriterSchema] = {}
        self._referred: dict[tuple[str, int], WriterSchema] = {}

    def schema(self, number: int) -> WriterSchema | None:
        """Return the schema with an id; None if the registry has none.

        Raises:
            SourceUnavailableError: The registry does not answer.
            SourceError: It refuses the login, or has no trusted certificate.
        """
        if number not in self._schemas:
            answer = self._ask(f"/schemas/ids/{number}")
            if answer is None:
                return None
            self._schemas[number] = self._read(answer, number)
        return self._schemas[number]

    def version(self, subject: str, version: str) -> WriterSchema | None:
        """Return a version of a subject (a number or `latest`); None if there is none.

        Raises:
            SourceUnavailableError, SourceError: As for `schema`.
        """
        answer = self._ask(f"/subjects/{quote(subject, safe='')}/versions/{version}")
        return None if answer is None else self._read(answer, None)

    def versions(self, subject: str) -> list[int] | None:
        """Return the versions of a subject; None if it does not exist.

        Raises:
            SourceUnavailableError, SourceError: As for `schema`.
        """
        answer = self._ask(f"/subjects/{quote(subject, safe='')}/versions")
        with self._as_registry():
            return None if answer is None else [int(number) for number in answer]

    def earlier(self, number: int) -> list[WriterSchema]:
        """Return the earlier versions of the first subject that has a schema, oldest first.

        Raises:
            SourceUnavailableError, SourceError: As for `schema`.
        """
        places = self._ask(f"/schemas/ids/{number}/versions") or []
        if not places:
            return []
        with self._as_registry():
            subject, before = min((str(place["subject"]), int(place["version"])) for place in places)
        older = [version for version in self.versions(subject) or [] if version < before]
        if len(older) > _MOST_VERSIONS:
            raise self._unavailable(f"{subject} has {len(older):,} versions")
        schemas = [self.version(subject, str(version)) for version in sorted(older)]
        return [place for place in schemas if place is not None]

    def _read(self, answer: Any, number: int | None, depth: int = 0) -> WriterSchema:
        with self._as_registry():
            number = int(answer.get("id", -1)) if number is None else number
            kind, text = str(answer.get("schemaType") or "AVRO"), str(answer["schema"])
            places = [
                (str(reference["name"]), (str(reference["subject"]), int(reference["version"])))
                for reference in answer.get("references") or ()
            ]
            patterns = (answer.get("metadata") or {}).get("tags") or {}
            tags = tuple((str(pattern), tags_of(tags)) for pattern, tags in patterns.items())
        references: dict[str, WriterSchema] = {}
        self._collect(places, references, depth)
        return WriterSchema(text, number, kind, tuple(references.items()), tags)

    def _collect(
        self, places: list[tuple[str, tuple[str, int]]], references: dict[str, WriterSchema], depth: int
    ) -> None:
        """Add what a schema refers to, each after what it refers to itself; a registry accepts no circles."""
        if depth > _MOST_DEPTH or len(places) > _MOST_REFERENCES:
            raise self._unavailable("a schema refers to too many others")
        for name, place in places:
            if name in references:
                continue
            if len(self._referred) >= _MOST_REFERRED:
                raise self._unavailable("schemas refer to too many others")
            if place not in self._referred:
                referred = self._ask(f"/subjects/{quote(place[0], safe='')}/versions/{place[1]}")
                if referred is None:
                    raise self._unavailable(f"it lacks version {place[1]} of {place[0]}, to which a schema refers")
                self._referred[place] = self._read(referred, None, depth + 1)
            for below, schema in self._referred[place].references:
                references.setdefault(below, schema)
            references[name] = self._referred[place]

    @contextmanager
    def _as_registry(self) -> Iterator[None]:
        """Name the registry if an answer has not the form of one."""
        try:
            yield
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise self._unavailable("its answer is not one of a registry") from error

    def _ask(self, path: str) -> Any:
        """Return the registry's answer; None: it says that there is no such thing."""
        try:
            status, data = self._server.ask("GET", self._prefix + path, None, self._headers, _MOST_BYTES)
        except (HTTPError, OSError) as raised:
            raise self._failed(raised) from raised
        if status in _DENIED:
            hint = "Correct `schema_registry_api_key` and `schema_registry_api_secret`, or `bearer_token`"
            text = f"The schema registry {self.url} refuses the login ({status})"
            raise SourceError(text, step="decode", target=self.url, hint=hint)
        try:
            answer = msgspec.json.decode(data)
        except (ValueError, RecursionError):
            answer = None
        if status == 404 and isinstance(answer, dict) and answer.get("error_code") in _NOT_FOUND:
            return None
        if status != 200 or not isinstance(answer, dict | list):
            raise self._unavailable(f"it answers {path} with status {status}{' and no JSON' * (status == 200)}")
        return answer

    def _failed(self, raised: BaseException) -> SourceError:
        if isinstance(raised, HeaderError):
            text = f"The schema registry {self.url} cannot be asked: {raised}"
            return SourceError(text, step="decode", target=self.url, hint="Correct `bearer_token`")
        cause = raised.args[0] if isinstance(raised, SSLError) and raised.args else None
        if isinstance(cause, ssl.SSLCertVerificationError):
            hint = "Set `certificate` to the certificate of the authority that signed it, in PEM"
            if "ostname" in cause.verify_message or "IP address" in cause.verify_message:
                hint = "Set `registry_url` to a name in its certificate, or have one made with this name"
            text = f"The schema registry {self.url} is not trusted: {cause.verify_message.rstrip('.')}"
            return SourceError(text, step="decode", target=self.url, hint=hint)
        if isinstance(cause, ssl.SSLError) and cause.reason == "WRONG_VERSION_NUMBER":
            text, hint = f"The schema registry {self.url} does not speak TLS", "Write http:// in `registry_url`"
            return SourceError(text, step="decode", target=self.url, hint=hint)
        return self._unavailable(no_answer(raised))

    def _unavailable(self, why: str) -> SourceUnavailableError:
        hint = "Start it or correct `registry_url`; Calve continues by itself when it answers, and no event is lost"
        text = f"The schema registry {self.url} does not answer: {why}"
        return SourceUnavailableError(text, step="decode", target=self.url, hint=hint)
