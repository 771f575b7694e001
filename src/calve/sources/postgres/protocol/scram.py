"""SCRAM-SHA-256 (RFC 5802, RFC 7677): proves a password to a server, and checks that the server knows it too."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import stringprep
import unicodedata

__all__ = ["MECHANISM", "ScramError", "ScramExchange"]

MECHANISM = "SCRAM-SHA-256"
_MOST_ROUNDS = 1_000_000
"""Half a second; the default of PostgreSQL is 4,096."""
_HEADER = b"n,,"  # no channel binding
_PROHIBITED = (
    stringprep.in_table_c12,
    stringprep.in_table_c21_c22,
    stringprep.in_table_c3,
    stringprep.in_table_c4,
    stringprep.in_table_c5,
    stringprep.in_table_c6,
    stringprep.in_table_c7,
    stringprep.in_table_c8,
    stringprep.in_table_c9,
)


class ScramError(Exception):
    """The server does not know the password, or does not follow the protocol."""


class ScramExchange:
    """One exchange; the user's name is empty, because PostgreSQL takes it from the start of the connection.

    Args:
        password: As the user has set it.
        nonce: Random text without commas; only tests give one.
    """

    def __init__(self, password: str, nonce: str = "") -> None:
        self._password = _prepared(password).encode()
        self._nonce = nonce or base64.b64encode(secrets.token_bytes(18)).decode()
        self._proven = b""
        self._is_checked = False

    @property
    def first(self) -> bytes:
        """The first message."""
        return _HEADER + self._bare

    @property
    def _bare(self) -> bytes:
        return f"n=,r={self._nonce}".encode()

    def final(self, challenge: bytes) -> bytes:
        """Return the answer to the server's first message.

        Raises:
            ScramError: The message is not one.
        """
        fields = _fields(challenge)
        try:
            nonce, salt, rounds = fields["r"], base64.b64decode(fields["s"]), int(fields["i"])
        except (KeyError, ValueError) as error:
            raise ScramError("the server's challenge is not one of SCRAM") from error
        if not nonce.startswith(self._nonce) or nonce == self._nonce or not 1 <= rounds <= _MOST_ROUNDS:
            raise ScramError("the server's challenge is not the answer to this exchange")
        salted = hashlib.pbkdf2_hmac("sha256", self._password, salt, rounds)
        client_key = _mac(salted, b"Client Key")
        without_proof = f"c={base64.b64encode(_HEADER).decode()},r={nonce}".encode()
        said = b",".join((self._bare, challenge, without_proof))
        signature = _mac(hashlib.sha256(client_key).digest(), said)
        proof = bytes(byte ^ other for byte, other in zip(client_key, signature, strict=True))
        self._proven = _mac(_mac(salted, b"Server Key"), said)
        return without_proof + b",p=" + base64.b64encode(proof)

    def require_check(self) -> None:
        """Refuse a server that ends an exchange before it has shown that it knows the password.

        Raises:
            ScramError: It has not.
        """
        if self._proven and not self._is_checked:
            raise ScramError("the server has not shown that it knows the password: it may be another server")

    def check(self, outcome: bytes) -> None:
        """Check the server's last message.

        Raises:
            ScramError: The server does not know the password.
        """
        expected = base64.b64encode(self._proven).decode()
        if not self._proven or not hmac.compare_digest(_fields(outcome).get("v", ""), expected):
            raise ScramError("the server does not know the password: it may be another server")
        self._is_checked = True


def _fields(message: bytes) -> dict[str, str]:
    parts = message.decode("ascii", "replace").split(",")
    return {name: value for name, _, value in (part.partition("=") for part in parts)}


def _mac(key: bytes, message: bytes) -> bytes:
    return hmac.new(key, message, hashlib.sha256).digest()


def _prepared(password: str) -> str:
    """Return a password after SASLprep (RFC 4013); one that it does not allow stays as it is, as in PostgreSQL."""
    if password.isascii():
        return password
    mapped = "".join(
        " " if stringprep.in_table_c12(character) else character
        for character in password
        if not stringprep.in_table_b1(character)
    )
    normal = unicodedata.normalize("NFKC", mapped)
    if not normal or any(test(character) for character in normal for test in _PROHIBITED) or _mixes_directions(normal):
        return password
    return normal


def _mixes_directions(text: str) -> bool:
    if not any(map(stringprep.in_table_d1, text)):
        return False
    ends = stringprep.in_table_d1(text[0]) and stringprep.in_table_d1(text[-1])
    return not ends or any(map(stringprep.in_table_d2, text))
