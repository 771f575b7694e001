"""The client of a schema registry with Confluent's API; runs on executors, and on the driver for checks.

https://docs.confluent.io/platform/current/schema-registry/develop/api.html
"""

from __future__ import annotations

import ssl
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec
import urllib3
from urllib3.exceptions import HTTPError, InsecureRequestWarning, SSLError

from calve.errors import SourceError, SourceUnavailableError
from calve.no_answer import no_answer
from calve.serde.format import WriterSchema
from calve.serde.settings import SchemaSettings

__all__ = ["Registry"]

_NOT_FOUND = (40401, 40402, 40403)
"""The registry's codes for an unknown subject, version and id. A 404 without one is not the registry's answer."""
_DENIED = (401, 403)
_MOST_REFERENCES = 1000


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
        timeout = urllib3.Timeout(settings.timeout.total_seconds())
        self._pool = urllib3.connection_from_url(self.url, timeout=timeout, retries=False, **tls)
        self._headers = {"accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if settings.schema_registry_api_key is not None:
            login = f"{settings.schema_registry_api_key}:{settings.schema_registry_api_secret}"
            self._headers |= urllib3.make_headers(basic_auth=login)
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
            found = self._ask(f"/schemas/ids/{number}")
            if found is None:
                return None
            self._schemas[number] = self._read(found, number)
        return self._schemas[number]

    def version(self, subject: str, version: str) -> WriterSchema | None:
        """Return a version of a subject (a number or `latest`); None if there is none.

        Raises:
            SourceUnavailableError, SourceError: As for `schema`.
        """
        found = self._ask(f"/subjects/{quote(subject, safe='')}/versions/{version}")
        return None if found is None else self._read(found, int(found.get("id", -1)))

    def versions(self, subject: str) -> list[int] | None:
        """Return the versions of a subject; None if it does not exist.

        Raises:
            SourceUnavailableError, SourceError: As for `schema`.
        """
        found = self._ask(f"/subjects/{quote(subject, safe='')}/versions")
        return None if found is None else [int(each) for each in found]

    def earlier(self, number: int) -> list[WriterSchema]:
        """Return the earlier versions of the first subject that has a schema, oldest first.

        Raises:
            SourceUnavailableError, SourceError: As for `schema`.
        """
        places = self._ask(f"/schemas/ids/{number}/versions") or []
        if not places:
            return []
        place = min(places, key=lambda each: (str(each["subject"]), int(each["version"])))
        subject, before = str(place["subject"]), int(place["version"])
        older = [one for one in self.versions(subject) or [] if one < before]
        found = [self.version(subject, str(one)) for one in sorted(older)]
        return [each for each in found if each is not None]

    def _read(self, found: Any, number: int) -> WriterSchema:
        references: dict[str, WriterSchema] = {}
        self._collect(found, references)
        kind = str(found.get("schemaType") or "AVRO")
        return WriterSchema(str(found["schema"]), number, kind, tuple(references.items()))

    def _collect(self, found: Any, references: dict[str, WriterSchema]) -> None:
        """Add what a schema refers to, each after what it refers to itself; a registry accepts no circles."""
        for each in found.get("references") or ():
            name, place = str(each["name"]), (str(each["subject"]), int(each["version"]))
            if name in references or len(references) >= _MOST_REFERENCES:
                continue
            if place not in self._referred:
                referred = self._ask(f"/subjects/{quote(place[0], safe='')}/versions/{place[1]}")
                if referred is None:
                    raise self._unavailable(f"it lacks version {place[1]} of {place[0]}, to which a schema refers")
                self._referred[place] = self._read(referred, int(referred.get("id", -1)))
            for below, schema in self._referred[place].references:
                references.setdefault(below, schema)
            references[name] = self._referred[place]

    def _ask(self, path: str) -> Any:
        """Return the registry's answer; None: it says that there is no such thing."""
        try:
            found = self._pool.urlopen("GET", self._prefix + path, None, self._headers, redirect=False)
        except (HTTPError, OSError) as raised:
            raise self._failed(raised) from raised
        if found.status in _DENIED:
            hint = "Correct `schema_registry_api_key` and `schema_registry_api_secret`, or `bearer_token`"
            text = f"The schema registry {self.url} refuses the login ({found.status})"
            raise SourceError(text, step="decode", target=self.url, hint=hint)
        try:
            answer = msgspec.json.decode(found.data)
        except msgspec.DecodeError:
            answer = None
        if found.status == 404 and isinstance(answer, dict) and answer.get("error_code") in _NOT_FOUND:
            return None
        if found.status != 200 or not isinstance(answer, dict | list):
            raise self._unavailable(f"it answers {path} with status {found.status}")
        return answer

    def _failed(self, raised: BaseException) -> SourceError:
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
