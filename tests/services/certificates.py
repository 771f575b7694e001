"""Certificates of our own: an authority, and servers that it signs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from services import process
from services.mysql import MySql
from services.postgres import Postgres


class Authority:
    """An authority in a folder; skips the test if this machine has no openssl."""

    def __init__(self, folder: Path) -> None:
        if shutil.which("openssl") is None:
            pytest.skip("needs openssl")
        folder.mkdir(parents=True)
        self._folder = folder
        self.certificate, self._key = folder / "ca.pem", folder / "ca.key"
        self._openssl("req", "-x509", *self._new("Calve test CA"), "-keyout", self._key, "-out", self.certificate)

    def sign(self, name: str) -> tuple[Path, Path]:
        """Make a certificate for an address or name; give it and its key, readable for all."""
        certificate, key, asked = (self._folder / f"server.{end}" for end in ("pem", "key", "csr"))
        self._openssl("req", *self._new(name), "-keyout", key, "-out", asked)
        names = self._folder / "names"
        names.write_text(f"subjectAltName={'IP' if name[0].isdigit() else 'DNS'}:{name}\n")
        signed = ["-CA", self.certificate, "-CAkey", self._key, "-CAcreateserial", "-days", "2", "-extfile", names]
        self._openssl("x509", "-req", "-in", asked, *signed, "-out", certificate)
        for file in (certificate, key, self.certificate):
            file.chmod(0o644)
        return certificate, key

    @staticmethod
    def _new(name: str) -> list[str]:
        return ["-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}"]

    @staticmethod
    def _openssl(*arguments: object) -> None:
        subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


def give_tls(server: Postgres | MySql, authority: Authority) -> None:
    """Let a database server on loopback that does not run yet have TLS."""
    certificate, key = authority.sign("127.0.0.1")
    is_postgres = isinstance(server, Postgres)
    names = ("ssl_cert_file", "ssl_key_file", "ssl_ca_file") if is_postgres else ("ssl_cert", "ssl_key", "ssl_ca")
    options: dict[str, object] = {"ssl": "on"} if is_postgres else {}
    for name, file in zip(names, (certificate, key, authority.certificate), strict=True):
        copy = server.folder / f"{name}.pem"
        shutil.copy(file, copy)
        shutil.chown(copy, *process.nobody())
        copy.chmod(0o600)
        options[name] = copy
    server.add_options(options)
