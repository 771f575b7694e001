"""Leaves credentials out of texts: Java, drivers and servers put whole addresses and passwords into their errors.

What the configuration and the environment say is secret is known by its value, and replaced in whatever form it comes;
the credentials of others are known by where they stand in an address.
"""

from __future__ import annotations

import html.entities
import json
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

__all__ = ["forget", "in_short", "is_secret_key", "remember", "without_credentials", "without_logins"]

_NAMES = r"(?:password|passwd|pwd|token|secret|credential|signature|api[_-]?key|access[_-]?key)"
_USER = re.compile(
    r"\b(?!(?:abfs|wasb)s?:)([a-z][a-z0-9+.-]*://)"
    r"(?:[^/\s@'\":]*:(?!\d{1,5}[/?#])(?:(?!://)[^\s'\"])*|[^/\s@'\"]*)@",
    re.IGNORECASE,
)
"""Not of Azure's file systems, where the container stands before the `@`."""
_ORACLE = re.compile(r"\b(jdbc:oracle:\w+:)[^\s/@]*/(\"[^\"]*\"|[^\s@]*)@", re.IGNORECASE)
"""`user/password@` of Oracle's JDBC driver."""
_PARAMETER = re.compile(
    rf"([?&;](?:[\w.-]*{_NAMES}[\w.-]*|sig)=)"
    r"(?:\"[^\"]*\"|'[^']*'|[^&;\s'\")\]}]+(?:[)\]}]+[^&;\s'\")\]}]+)*)",
    re.IGNORECASE,
)
_SECRET_KEY = re.compile(
    rf"(?:{_NAMES}s?(?:[_-]id)?|(?:secret|private)[._-]?key|passphrase|authorization|user\.info|account\.?key(?:\..*)?"
    r"|key\.pem|keystore\.key|auth\.?params|auth\.pass|connection-?string.*|sas-token.*|jaas\.config)$",
    re.I,
)
_WITHIN = re.compile(r"(?:password=\"|SharedAccessKey=|AccountKey=)([^\";]+)", re.I)
"""The secret within the login of a Kafka client in Java, and within Azure's connection strings."""
_USER_OF = re.compile(r"://[^/\s@:]*:(?!\d{1,5}[/?#])(\S*)@")
_PARAMETER_OF = re.compile(rf"[?&;](?:[\w.-]*{_NAMES}[\w.-]*|sig)=([^&]+)", re.IGNORECASE)
_SHORTEST = 4
"""Shorter texts are part of many words and numbers."""
_SHORTEST_INSIDE = 8
"""A shorter word is replaced only where it stands alone: `test` is not in `latest`."""
_SHORTEST_BASE64 = 8
_LONGEST_ENCODED = 4_096
"""A longer one (a file with many keys) is known only as it is."""
_DOUBLED = "'\""
"""SQL and CSV write them twice."""
_ESCAPES = r"\\{1,8}"
"""JSON in JSON in JSON has that many; a bound, so that a text of backslashes takes no time."""

_KNOWN: dict[str, re.Pattern[str]] = {}
"""The secrets of this process, each with what finds all its forms."""


def remember(value: Any, *, is_secret: bool = False) -> None:
    """Keep secrets out of all texts from now on: a value, or what is secret by its key or its place in an address.

    Args:
        value: A text, or a list or map of texts.
        is_secret: Whether a text is a secret as a whole; in a map the keys decide.
    """
    for secret in _secrets(value, is_secret):
        if len(secret) >= _SHORTEST and secret not in _KNOWN:
            _KNOWN[secret] = re.compile(_forms(secret))


def forget() -> None:
    """Forget all secrets, so that one test does not change the texts of the next."""
    _KNOWN.clear()


def without_credentials(text: str) -> str:
    """Return a text without known secrets, whose addresses have no user, and no parameters named like a secret."""
    for secret in sorted(_KNOWN, key=len, reverse=True):
        text = _KNOWN[secret].sub("…", text)
    return without_logins(text)


def without_logins(text: str) -> str:
    """Return a text whose addresses have no user, and no values of parameters named like a secret."""
    text = _ORACLE.sub(r"\1", text)
    return _PARAMETER.sub(r"\1…", _USER.sub(r"\1", text)) if "://" in text else text


def is_secret_key(key: str) -> bool:
    """Return whether a property with this name has a secret."""
    return _SECRET_KEY.search(key) is not None


def in_short(error: BaseException, most: int = 300) -> str:
    """Return an unexpected error in one short text; cut only without its credentials, as half a secret is not known."""
    return f"{type(error).__name__}: {without_credentials(str(error))[:most]}"


def _secrets(value: Any, is_secret: bool) -> Iterator[str]:
    if isinstance(value, str):
        yield from _whole(value) if is_secret else _of_address(value)
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _secrets(inner, bool(_SECRET_KEY.search(key)))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _secrets(inner, is_secret)


def _whole(value: str) -> Iterator[str]:
    """Yield a secret, and of `id:secret` and `Bearer secret` also the second part."""
    yield value
    yield value.strip()
    yield re.sub(r"^(?:[\w.-]+:|(?:basic|bearer) )", "", value, flags=re.IGNORECASE)
    yield from _WITHIN.findall(value)


def _of_address(value: str) -> Iterator[str]:
    """Yield the secrets of an address, and the parts that a reader makes of one that should have been encoded."""
    yield from (password for _, password in _ORACLE.findall(value))
    if "://" not in value:
        return
    for password in _USER_OF.findall(value):
        yield from (password, unquote(password))
        for ends in ("@", "[/?#]", "[/@:?#]"):
            yield from re.split(ends, password)
    for given in _PARAMETER_OF.findall(value):
        yield from (given, unquote(given), given.partition(";")[0])


def _forms(secret: str) -> str:
    """Return the pattern of a secret in every form: each character as it is, encoded, escaped or quoted."""
    if len(secret) > _LONGEST_ENCODED:
        return re.escape(secret)
    form = "".join(map(_character, secret))
    if len(secret) < _SHORTEST_INSIDE and re.fullmatch(r"\w+", secret):
        return rf"(?<!\w){form}(?!\w)"
    return "|".join((form, *_base64(secret.encode(errors="surrogatepass"))))


def _character(character: str) -> str:
    if character.isascii() and character.isalnum():
        return character
    encoded = character.encode(errors="surrogatepass")
    percent = "".join(f"%(?:25)*{byte:02x}" for byte in encoded)
    named = html.entities.codepoint2name.get(ord(character), "amp")
    texts = {json.dumps(character)[1:-1], ascii(character)[1:-1], repr(encoded)[2:-1], encoded.decode("latin-1")} - {
        character
    }
    escaped = [re.escape(text).replace(r"\\", _ESCAPES) for text in sorted(texts)]
    entities = (f"&#0*{ord(character)};", f"&#x0*{ord(character):x};", f"&{named};")
    plain = (
        _ESCAPES if character == "\\" else rf"\\{{0,8}}{re.escape(character)}{'{1,2}' if character in _DOUBLED else ''}"
    )
    return f"(?i:{'|'.join((percent, *escaped, *entities, plain, *([r'[+]'] if character == ' ' else [])))})"


def _base64(secret: bytes) -> Iterator[str]:
    """Yield what base64 makes of a secret at each place in a longer text, without the characters of its neighbours."""
    for before, start in ((0, 0), (1, 2), (2, 3)):
        text = b64encode(bytes(before) + secret).decode()[start : (before + len(secret)) * 8 // 6]
        if len(text) >= _SHORTEST_BASE64:
            yield text.replace("+", "[+-]").replace("/", "[/_]")
