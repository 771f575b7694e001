"""The options of schemas: a registry, or a given schema; by Data Prepper's keys."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import ClassVar, Literal

from calve.errors import SettingsError
from calve.serde.json_schema_check import is_installed
from calve.settings import option
from calve.settings.clear_text import exposed

__all__ = ["FORMATS", "SchemaSettings", "Serde"]

FORMATS = ("avro", "json_schema", "protobuf")
"""The values of `serde_format` that need a schema."""
_PEM = "-----BEGIN"
_URL = re.compile(r"https?://[^/\s?#@]+(/[^\s?#]*)?")
_USER = ("schema_registry_api_key", "schema_registry_api_secret")


def _check_url(url: str) -> None:
    if "@" in url:
        raise SettingsError("an address cannot have user and password; set schema_registry_api_key and …_api_secret")
    if not _URL.fullmatch(url):
        raise SettingsError(f"{url[:100]!r} is not an address: write https://name:8081")


def _check_version(version: str) -> None:
    if version != "latest" and not (version.isdecimal() and int(version) > 0):
        raise SettingsError("expected latest or a number from 1")


def _content(what: str, path: str, key: str) -> str:
    try:
        return Path(path).expanduser().read_text()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise SettingsError(
            f"The {what} {path} cannot be read: {why}", step="start", hint=f"Correct `{key}`"
        ) from error


def _check_certificate(text: str, source: str) -> None:
    try:
        ssl.create_default_context(cadata=text)
    except (ssl.SSLError, ValueError) as error:
        hint = "Set `certificate` to a PEM file of the authority (-----BEGIN CERTIFICATE-----), not of a key"
        message = f"The certificate {source} cannot be used: it is no certificate in PEM"
        raise SettingsError(message, step="start", hint=hint) from error


@dataclass(frozen=True)
class SchemaSettings:
    """Where the schemas of records are: in a schema registry, in a file, or in the configuration itself."""

    IGNORED_KEYS: ClassVar[Mapping[str, str]] = {
        "is_schema_create": "Calve registers no schema",
        "override_endpoint": "registry_url is the address",
        "session_timeout_ms": "timeout decides",
    }
    REFUSED_KEYS: ClassVar[Mapping[str, str]] = {
        "s3_file_config": (
            "is not supported: copy the schema to a file (schema_file_location), or write it as inline_schema"
        ),
    }

    type: Literal["confluent"] = option("confluent", "The API of the registry. Others than Confluent's have it, too.")
    registry_url: str | None = option(None, "The registry, e.g. `https://registry:8081`.", check=_check_url)
    version: str = option(
        "latest",
        "`latest`: each record is read by the schema it was written by, and the columns follow the versions. A number: "
        "this version of the subject decides the columns; fields that a record lacks get its defaults.",
        check=_check_version,
    )
    subject: str | None = option(None, "The subject with that version. Default: `<topic>-value`.", minimum=1)
    key_format: Literal["text", "avro", "json_schema", "protobuf"] = option(
        "text",
        "How the key of a record becomes `kafka_key`: `text` as it is; else by the schema of its id in the registry, a "
        "record, message or object as JSON, any other type as its text. Keys of Debezium are always decoded.",
    )
    schema_registry_api_key: str | None = option(None, "The user for basic authentication.", aliases=("api_key",))
    schema_registry_api_secret: str | None = option(
        None, "The password of that user.", secret=True, aliases=("api_secret",)
    )
    basic_auth_credentials_source: Literal["USER_INFO"] = option(
        "USER_INFO", "Accepted for compatibility with Data Prepper: the user is in `schema_registry_api_key`."
    )
    bearer_token: str | None = option(None, "A token for authentication, instead of a user.", secret=True, minimum=1)
    certificate: str | None = option(
        None,
        "The CA certificate for the registry: a PEM file or its content. Default: the CAs of the machine.",
        minimum=1,
    )
    insecure: bool = option(False, "Do not verify the registry's certificate.")
    timeout: timedelta = option(
        timedelta(seconds=10), "How long the registry may take to answer.", minimum=timedelta(milliseconds=10)
    )
    schema_file_location: str | None = option(
        None, "A file with the schema; records then have no id, and no registry is asked.", minimum=1
    )
    inline_schema: str | None = option(None, "The schema itself, as in `schema_file_location`.", minimum=1)
    validate: bool = option(
        False,
        "With `json_schema`: a value that breaks a constraint of its schema (`minimum`, `pattern`, `required`, …) is a "
        "dead letter (`pip install 'calve[jsonschema]'`).",
    )

    def check(self) -> Iterator[tuple[str, str]]:
        """Refuse all but exactly one place of schemas, and half a login."""
        places = [self.registry_url, self.schema_file_location, self.inline_schema]
        if sum(place is not None for place in places) != 1:
            yield "", "set exactly one of registry_url, schema_file_location and inline_schema"
        if self.key_format != "text" and self.registry_url is None:
            yield "key_format", f"{self.key_format} needs registry_url: without a registry keys have no id of a schema"
        if self.validate and not is_installed():
            yield "validate", "needs a library: pip install 'calve[jsonschema]', also on the executors"
        if (self.schema_registry_api_key is None) != (self.schema_registry_api_secret is None):
            yield "", f"set both {_USER[0]} and {_USER[1]}, or none"
        if self.bearer_token is not None and self.schema_registry_api_key is not None:
            yield "bearer_token", f"set either bearer_token or {_USER[0]}"

    def doubts(self) -> Iterator[tuple[str, str]]:
        """Warn of credentials that others can read."""
        if self.bearer_token or self.schema_registry_api_secret:
            message = exposed(self.registry_url or "", self.insecure)
            yield from [("registry_url", message)] if message else []

    def with_text(self) -> SchemaSettings:
        """Return the settings with the content of the files of the schema and the CA, which tasks may not see.

        Raises:
            SettingsError: A file cannot be read, or is no certificate.
        """
        settings = self
        if self.schema_file_location is not None:
            text = _content("schema", self.schema_file_location, "schema_file_location")
            settings = replace(settings, schema_file_location=None, inline_schema=text)
        if self.certificate is not None:
            given = self.certificate
            text = given if _PEM in given else _content("certificate", given, "certificate")
            _check_certificate(text, "in `certificate`" if text == given else given)
            settings = replace(settings, certificate=text)
        return settings


@dataclass(frozen=True)
class Serde:
    """How the values of a source's records become rows; pickled into the tasks.

    Attributes:
        format: One of `FORMATS`.
        schema: Where the schemas are; a file's content is in `inline_schema`.
        subjects: The subjects of the topics; a chosen version is one of the only subject.
        is_keyed: Whether records without a value stay, and the schemas of keys are returned.
    """

    format: str
    schema: SchemaSettings
    subjects: tuple[str, ...] = ()
    is_keyed: bool = False
