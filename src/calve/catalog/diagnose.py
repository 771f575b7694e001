"""Finds out why a catalog does not open or a table cannot be stored, where Java's exception is not enough."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError

from calve.errors import CalveError, SetupError, SinkRefusedError, Verdict, WriteError
from calve.settings.catalog import shown_uri
from calve.state.durable import local_path, try_folder

__all__ = ["disk_explained", "not_opened"]

_STEP = "open the catalog"
_HINT = "Check `catalog:`; a class outside of Calve needs its jar: `--conf spark.driver.extraClassPath=/path.jar`"
_TIMEOUT_SECONDS = 10
_MOST_BYTES = 1 << 20
_ANSWERS_OF_CATALOGS = (400, 401, 403, 408, 419, 429)
"""Statuses of a catalog that is busy, or refuses a request simpler than those of Iceberg's client."""


def not_opened(error: CalveError, jvm: Any, name: str, properties: Mapping[str, str]) -> CalveError:
    """Return the error for a catalog that does not open: a `SetupError` if a retry cannot help, else `error`."""
    uri = properties.get("uri", "")
    if error.verdict is Verdict.AGAIN:
        kind = properties.get("type", "")
        reason = _no_rest(uri, properties) if kind == "rest" else _no_driver(jvm, uri) if kind == "jdbc" else None
        if reason:
            return SetupError(f"{name}: {reason[0]}", step=_STEP, target=name, hint=reason[1])
    elif not isinstance(error, (SetupError, SinkRefusedError)):
        error = SetupError(error.message, step=_STEP, target=name, hint=error.hint or _HINT)
    error.message = error.message.replace(uri, shown_uri(uri)) if uri else error.message
    return error


@contextmanager
def disk_explained(location: str) -> Iterator[None]:
    """Replace Hadoop's error by the operating system's, which has the reason, if a local folder cannot be written.

    Raises:
        SetupError: Files cannot be written, and a retry cannot help.
    """
    try:
        yield
    except WriteError as error:
        folder = local_path(location)
        if folder is not None and error.verdict is Verdict.AGAIN:
            try_folder(folder)
        raise


def _no_rest(uri: str, properties: Mapping[str, str]) -> tuple[str, str] | None:
    """Return why the server at an address is no Iceberg REST catalog, and a hint; None if it may be one."""
    query = urllib.parse.urlencode({key: properties[key] for key in ("warehouse",) if key in properties})
    try:
        if "credential" in properties and (reason := _no_tokens(properties.get("oauth2-server-uri", ""))):
            return reason
        status, kind, body = _ask(f"{uri.rstrip('/')}/v1/config?{query}")
    except (OSError, ValueError):
        return None  # it is down, or only Iceberg's client can reach it
    if status >= 500 or status in _ANSWERS_OF_CATALOGS:
        return None
    answer = _json(body)
    if isinstance(answer, dict) and status < 300:
        return None
    error = answer.get("error") if isinstance(answer, dict) else None
    if isinstance(error, dict):
        return f"The catalog at {uri} answers {status}: {error.get('message')}", "Correct `uri` or `warehouse`"
    hint = "Correct `uri` in `catalog:`; Iceberg's client asks for `<uri>/v1/config`"
    return f"{uri} is no Iceberg REST catalog: GET /v1/config answers {status} with {kind}", hint


def _no_tokens(uri: str) -> tuple[str, str] | None:
    """Return why no OAuth2 server is at an address, and a hint; None if one may be, or if the address is relative."""
    if "://" not in uri:
        return None
    status, kind, _ = _ask(
        uri, b"grant_type=client_credentials"
    )  # a server that issues tokens refuses this with 400 or 401
    if status not in (404, 405) and not (status < 300 and kind != "application/json"):
        return None
    hint = "Correct `oauth2-server-uri` in `catalog:`; most catalogs have it at `<uri>/v1/oauth/tokens`"
    return f"{shown_uri(uri)} issues no tokens: POST answers {status} with {kind}", hint


def _ask(url: str, form: bytes | None = None) -> tuple[int, str, bytes]:
    """Send a GET request, or POST a form; return the status, the content type and the body."""
    request = urllib.request.Request(url, form, headers={"Accept": "application/json"})  # the user's own address
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as answer:
            return answer.status, answer.headers.get_content_type(), answer.read(_MOST_BYTES)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers.get_content_type(), error.read(_MOST_BYTES)


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return None


def _no_driver(jvm: Any, uri: str) -> tuple[str, str] | None:
    """Return the error and a hint if the JVM lacks a JDBC driver for a URI; else None."""
    try:
        jvm.java.sql.DriverManager.getDriver(uri)
    except Py4JJavaError:
        hint = (
            "Correct `uri` (e.g. jdbc:postgresql://host/database), or add the jar of the database's driver: "
            "`--conf spark.driver.extraClassPath=/path/driver.jar`"
        )
        return f"there is no JDBC driver for {shown_uri(uri)}", hint
    return None
