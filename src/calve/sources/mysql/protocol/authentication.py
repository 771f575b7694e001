"""Proves a password to MySQL and MariaDB.

https://dev.mysql.com/doc/dev/mysql-server/latest/page_caching_sha2_authentication_exchanges.html; RSA-OAEP: RFC 8017.
"""

from __future__ import annotations

import base64
import hashlib
import os

__all__ = ["CACHING_SHA2", "NATIVE", "SHA256", "encrypted", "proof"]

NATIVE, CACHING_SHA2, SHA256 = "mysql_native_password", "caching_sha2_password", "sha256_password"
_HASH_BYTES = 20


def proof(plugin: str, password: str, nonce: bytes) -> bytes:
    """Return the answer to the server's nonce; empty without a password.

    Args:
        plugin: `NATIVE` or `CACHING_SHA2`.
        password: The password.
        nonce: What the server sent.
    """
    if not password:
        return b""
    if plugin == NATIVE:
        once = hashlib.sha1(password.encode()).digest()
        twice = hashlib.sha1(once).digest()
        return _xor(once, hashlib.sha1(nonce + twice).digest())
    once = hashlib.sha256(password.encode()).digest()
    twice = hashlib.sha256(once).digest()
    return _xor(once, hashlib.sha256(twice + nonce).digest())


def encrypted(password: bytes, nonce: bytes, public_key: bytes) -> bytes:
    """Return the password, encrypted for the owner of an RSA key (OAEP with SHA-1).

    Args:
        password: The password.
        nonce: What the server sent.
        public_key: The key in PEM form.

    Raises:
        ValueError: It is no RSA key.
    """
    modulus, exponent = _rsa_key(public_key)
    text = password + b"\0"
    size = (modulus.bit_length() + 7) // 8
    secret = _xor(text, (nonce * (len(text) // len(nonce) + 1))[: len(text)])
    room = size - 2 * _HASH_BYTES - 2 - len(secret)
    if room < 0:
        raise ValueError("the password is longer than the server's key can encrypt")
    block = hashlib.sha1(b"").digest() + bytes(room) + b"\1" + secret
    seed = os.urandom(_HASH_BYTES)
    masked = _xor(block, _mask(seed, len(block)))
    padded = b"\0" + _xor(seed, _mask(masked, _HASH_BYTES)) + masked
    return pow(int.from_bytes(padded, "big"), exponent, modulus).to_bytes(size, "big")


def _mask(seed: bytes, size: int) -> bytes:
    """Return so many bytes of MGF1."""
    parts = (hashlib.sha1(seed + number.to_bytes(4, "big")).digest() for number in range(size // _HASH_BYTES + 1))
    return b"".join(parts)[:size]


def _rsa_key(pem: bytes) -> tuple[int, int]:
    """Read modulus and exponent of a `SubjectPublicKeyInfo` (RFC 5280)."""
    lines = pem.strip().splitlines()
    if len(lines) < 3 or b"PUBLIC KEY" not in lines[0]:
        raise ValueError("the server sent no public key")
    whole = _der(base64.b64decode(b"".join(lines[1:-1])))[0]
    bits = _der(whole[len(whole) - len(_der(whole)[1]) :])[0]
    key = _der(bits[1:])[0]  # the first byte counts unused bits
    modulus, rest = _der(key)
    return int.from_bytes(modulus, "big"), int.from_bytes(_der(rest)[0], "big")


def _der(data: bytes) -> tuple[bytes, bytes]:
    """Return the content of the first element, and what follows it."""
    size, at = data[1], 2
    if size & 0x80:
        at += size & 0x7F
        size = int.from_bytes(data[2:at], "big")
    return data[at : at + size], data[at + size :]


def _xor(left_bytes: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left_bytes, other, strict=True))
