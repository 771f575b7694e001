"""How clients reach the brokers: the options that the source and the sink share."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from calve.network.host_names import is_loopback
from calve.settings import option

__all__ = [
    "ClientCertificate",
    "Encryption",
    "KafkaAccess",
    "KafkaAuthentication",
    "Login",
    "Sasl",
    "ScramLogin",
    "topic_fault",
]

_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")


def topic_fault(name: str) -> str | None:
    """Return what is wrong with a topic's name, or None if it is valid."""
    if _NAME.fullmatch(name) and name not in (".", ".."):
        return None
    return f"{name[:100]!r} is not a topic: 1 to 249 letters, digits, dots, underscores and hyphens"


@dataclass(frozen=True)
class Encryption:
    """TLS between Calve and the brokers."""

    REFUSED_KEYS: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(
            ("trust_store_file_path", "trust_store_password"),
            "is for Java: give the authority's PEM file as certificate",
        ),
    }

    type: Literal["ssl", "none"] = option("ssl", "Whether TLS is used.")
    certificate: str | None = option(None, "The CA certificate for the brokers: a PEM file or its content.")
    insecure: bool = option(False, "Do not verify the brokers' certificates.")


@dataclass(frozen=True)
class Login:
    """A user of the brokers."""

    username: str = option(doc="The user.")
    password: str = option(doc="The password.", secret=True)


@dataclass(frozen=True)
class ScramLogin(Login):
    """A user of the brokers, with SCRAM."""

    mechanism: Literal["SCRAM-SHA-256", "SCRAM-SHA-512"] = option("SCRAM-SHA-512", "The SCRAM mechanism.")


@dataclass(frozen=True)
class Sasl:
    """How Calve logs in."""

    IGNORED_KEYS: ClassVar[Mapping[str, str]] = {
        "ssl_endpoint_identification_algorithm": (
            "the name of a broker is always verified, except with encryption: {insecure: true}"
        ),
    }
    REFUSED_KEYS: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(
            ("aws_msk_iam", "azure_federated", "oauth"),
            "is not an option here: use scram, plaintext or a certificate, or set the mechanism in client_properties",
        ),
    }

    plaintext: Login | None = option(None, "User and password (SASL/PLAIN).", aliases=("plain",))
    scram: ScramLogin | None = option(None, "User and password (SASL/SCRAM); the password is never sent.")

    def check(self) -> Iterator[tuple[str, str]]:
        """Reject everything but exactly one mechanism."""
        if (self.plaintext is None) == (self.scram is None):
            yield "", "set either plaintext or scram; for other mechanisms use client_properties"


@dataclass(frozen=True)
class ClientCertificate:
    """A client certificate."""

    certificate: str = option(doc="A PEM file.")
    key: str = option(doc="The PEM file of its private key.")
    key_password: str | None = option(None, "The password of the key.", secret=True)


@dataclass(frozen=True)
class KafkaAuthentication:
    """How Calve authenticates: SASL, a certificate, or both."""

    sasl: Sasl | None = option(None, "User and password.")
    ssl: ClientCertificate | None = option(None, "A client certificate; implies TLS.")


class KafkaAccess:
    """The settings of a source or sink with brokers; the options themselves are its own, in its order."""

    bootstrap_servers: str | list[str]
    encryption: Encryption | None
    authentication: KafkaAuthentication | None
    client_properties: dict[str, str]

    @property
    def servers(self) -> str:
        """The brokers as librdkafka writes them."""
        given = self.bootstrap_servers
        return given if isinstance(given, str) else ",".join(given)

    def client(self) -> dict[str, Any]:
        """Return librdkafka's properties of every client of these brokers."""
        return {"bootstrap.servers": self.servers, **self._security(), **self.client_properties}

    def _security(self) -> dict[str, Any]:
        sasl = self.authentication.sasl if self.authentication else None
        certificate = self.authentication.ssl if self.authentication else None
        tls = certificate is not None or (self.encryption is not None and self.encryption.type == "ssl")
        protocol = ("SASL_" if sasl else "") + ("SSL" if tls else "PLAINTEXT")
        options: dict[str, Any] = {} if protocol == "PLAINTEXT" else {"security.protocol": protocol}
        if tls and self.encryption:
            options |= _authority(self.encryption)
        if certificate:
            options |= {"ssl.certificate.location": certificate.certificate, "ssl.key.location": certificate.key}
            options |= {"ssl.key.password": certificate.key_password} if certificate.key_password else {}
        return options | (_login(sasl) if sasl else {})

    def doubts(self) -> Iterator[tuple[str, str]]:
        """Warn of a password that others can read."""
        client = self.client()
        names = [server.strip().rpartition(":")[0].strip("[]") for server in self.servers.split(",")]
        is_plain = "PLAIN" in (client.get("sasl.mechanism"), client.get("sasl.mechanisms"))
        if not (is_plain and client.get("sasl.password")) or all(map(is_loopback, names)):
            return
        if "SSL" not in client.get("security.protocol", "").upper().removeprefix("SASL_"):
            key = "client_properties" if "sasl.password" in self.client_properties else "authentication.sasl.plaintext"
            yield key, "sends the password without TLS, so anybody on the way can read it; set `encryption`"
        elif self.encryption and self.encryption.insecure:
            yield "encryption.insecure", "sends the password to brokers whose certificate is not verified"


def _authority(encryption: Encryption) -> dict[str, Any]:
    options: dict[str, Any] = {"enable.ssl.certificate.verification": False} if encryption.insecure else {}
    if encryption.certificate:
        kind = "ssl.ca.pem" if encryption.certificate.startswith("-----BEGIN") else "ssl.ca.location"
        options[kind] = encryption.certificate
    return options


def _login(sasl: Sasl) -> dict[str, Any]:
    login: Login | None = sasl.scram or sasl.plaintext
    assert login is not None  # guaranteed by `check`
    mechanism = sasl.scram.mechanism if sasl.scram else "PLAIN"
    return {"sasl.mechanism": mechanism, "sasl.username": login.username, "sasl.password": login.password}
