"""The additional jars of Spark, fetched once into the cache by Python: with its certificates and proxies, without Java.

`python -m calve.engine.jvm.jars [--s3]` fetches them ahead of the first run. Runs on the driver.
"""

from __future__ import annotations

import hashlib
import os
import ssl
import sys
import tempfile
import time
import zipfile
from base64 import b64encode
from collections.abc import Sequence
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import unquote, urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, OpenerDirector, Request, build_opener

import certifi

from calve.engine.jvm import spark_package
from calve.engine.jvm.cache import cache_folder
from calve.errors import EngineError
from calve.network.backoff import delay
from calve.network.no_answer import no_answer

__all__ = ["ALWAYS", "AWS", "ICEBERG", "REPOSITORY", "SQLITE", "needed", "resolve"]

ICEBERG = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
SQLITE = "org.xerial:sqlite-jdbc:3.50.3.0"
AWS = "org.apache.iceberg:iceberg-aws-bundle:1.12.0"
ALWAYS = (ICEBERG, SQLITE)
_SHA256 = {
    ICEBERG: "3123c3798af642dd537230923548e013ef41cc28b6626e5225808cf5670a0f82",
    SQLITE: "a3f53a2aa15ae9425a9e793bbe9c8e5288febeb4b65ef5c1a4e80d4c2045cf08",
    AWS: "dd7e49ffa4ac9b215bed846581991259e3aec9bb2fa08d6cec029c46cd66d957",
}

REPOSITORY = "CALVE_MAVEN_REPOSITORY"
"""The environment variable with the URL of a mirror of Maven's repository; default: the one that Spark's Ivy knows."""
_IVY_KEY = "ivy.ibiblio.default.artifact.root"
_TRIES = 3
_SILENT_SECONDS = 60
_TELL_SECONDS = 10
_PIECE_BYTES = 1 << 20
_CLIENT_ERRORS = range(400, 500)
_PORTS = {"http": 80, "https": 443}


def needed(needs_s3: bool = False) -> list[str]:
    """Return the coordinates that a session needs, those of every session first."""
    return [*ALWAYS, AWS] if needs_s3 else [*ALWAYS]


def resolve(coordinates: Sequence[str], cache: Path | None = None) -> list[Path]:
    """Return the jar of each coordinate (`group:artifact:version`), downloading only what the cache lacks.

    Dependencies of the jars are not fetched: Calve uses bundles. Safe to run in parallel.

    Raises:
        EngineError: A jar is missing and cannot be downloaded.
    """
    folder = (cache or cache_folder()) / "jars"
    files = [folder / f"{coordinate.replace(':', '_', 1).replace(':', '-')}.jar" for coordinate in coordinates]
    for coordinate, file in zip(coordinates, files, strict=True):
        if not file.is_file():
            folder.mkdir(parents=True, exist_ok=True)
            _download(coordinate, file)
    return files


def _download(coordinate: str, file: Path) -> None:
    for failures in range(_TRIES):
        try:
            _publish(coordinate, file)
        except (OSError, ValueError, HTTPException) as error:
            if failures + 1 == _TRIES or _is_final(error):
                raise _not_downloaded(coordinate, file, error) from error
            time.sleep(delay(failures))
        else:
            return


def _publish(coordinate: str, file: Path) -> None:
    """Fetch into a temporary file, check it, and move it: a jar in the cache is always complete."""
    with tempfile.TemporaryDirectory(prefix=".download-", dir=file.parent) as name:
        scratch = Path(name, file.name)
        if _fetch(coordinate, scratch) != _SHA256[coordinate]:
            raise ValueError("what came is not this jar (its SHA-256 differs)")
        scratch.replace(file)


def _fetch(coordinate: str, file: Path) -> str:
    """Copy a jar into a file, and say so; return its SHA-256."""
    group, artifact, version = coordinate.split(":")
    address, headers = _repository()
    url = f"{address.rstrip('/')}/{group.replace('.', '/')}/{artifact}/{version}/{artifact}-{version}.jar"
    digest, done, reported_at = hashlib.sha256(), 0, time.monotonic()
    with _opener().open(Request(url, headers=headers), timeout=_SILENT_SECONDS) as answer, file.open("wb") as out:
        total = int(answer.headers.get("content-length") or 0)
        print(f"Downloading {artifact} {version}, {total / 1e6:.0f} MB (once) …", file=sys.stderr, flush=True)
        while piece := answer.read(_PIECE_BYTES):
            out.write(piece)
            digest.update(piece)
            done += len(piece)
            if time.monotonic() - reported_at > _TELL_SECONDS:
                reported_at = time.monotonic()
                print(f"      {done / 1e6:.0f} of {total / 1e6:.0f} MB", file=sys.stderr, flush=True)
    if done < total:
        raise OSError("the answer ended too early")
    return digest.hexdigest()


class _Redirects(HTTPRedirectHandler):
    """Follows redirects; the user of the mirror goes to no other server."""

    def redirect_request(self, req: Request, *answer: Any) -> Request | None:
        """Return the request at the new address, without the user if that is of another scheme, host or port."""
        following = super().redirect_request(req, *answer)
        if following and _server(following) != _server(req):
            following.remove_header("Authorization")
        return following


def _server(request: Request) -> tuple[str, str | None, int | None]:
    parts = urlsplit(request.full_url)
    return parts.scheme, parts.hostname, parts.port or _PORTS.get(parts.scheme)


def _opener() -> OpenerDirector:
    trusted = ssl.create_default_context()  # of the system, or of SSL_CERT_FILE
    trusted.load_verify_locations(certifi.where())  # a Python may have been built for another place of the system's
    return build_opener(HTTPSHandler(context=trusted), _Redirects)


def _repository() -> tuple[str, dict[str, str]]:
    """Return the URL of the repository, without a user in it, and the headers of that user."""
    given = os.environ.get(REPOSITORY) or _of_ivy()
    parts = urlsplit(given)
    if not parts.scheme:
        raise ValueError(f"{REPOSITORY} is no URL")
    if parts.username is None:
        return given, {}
    user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    url = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    return url, {"authorization": f"Basic {b64encode(user.encode()).decode()}"}


def _of_ivy() -> str:
    """Return the address of Maven's repository that PySpark's Ivy has."""
    ivy = next((spark_package.folder() / "jars").glob("ivy-*.jar"))
    with zipfile.ZipFile(ivy) as jar:
        lines = jar.read("org/apache/ivy/core/settings/repository.properties").decode().splitlines()
    return next(value.strip() for key, _, value in (line.partition("=") for line in lines) if key.strip() == _IVY_KEY)


def _is_final(error: Exception) -> bool:
    return isinstance(error, ValueError) or _untrusted(error) or getattr(error, "code", None) in _CLIENT_ERRORS


def _untrusted(error: Exception) -> bool:
    return isinstance(getattr(error, "reason", None), ssl.SSLCertVerificationError)


def _not_downloaded(coordinate: str, file: Path, error: Exception) -> EngineError:
    why = f"status {error.code} {error.reason}" if isinstance(error, HTTPError) else no_answer(error)
    way = f"Set HTTPS_PROXY if you need a proxy, or {REPOSITORY} to the URL of a mirror, or put the jar there: {file}"
    if _untrusted(error):
        why = "the certificate of the server or proxy is not from a known authority"
        way = f"Set SSL_CERT_FILE to a file with the certificates of your company. {way}"
    return EngineError(
        f"The jar {coordinate} is not in the cache and cannot be downloaded: {why}",
        step="engine",
        target=coordinate,
        hint=way,
    )


def _main() -> int:
    try:
        for file in resolve(needed(needs_s3="--s3" in sys.argv[1:])):
            print(file)
    except EngineError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(_main())
