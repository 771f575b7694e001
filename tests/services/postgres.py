"""A real PostgreSQL server on a free port of loopback, with what tests do to it.

The binaries come from Maven. PostgreSQL refuses to run as root: then it runs as `nobody`, in folders that user can read.
"""

from __future__ import annotations

import os
import platform
import shutil
import signal
import subprocess
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Self

from calve.sources.database.connection import Address, ClosedError, ServerError
from calve.sources.postgres.protocol.wire import PostgresConnection, Row, connect
from services import jars, process

VERSION = "17.11.0"
MACHINES = {"aarch64": "arm64v8", "arm64": "arm64v8"}
PLATFORM = f"{platform.system().lower()}-{MACHINES.get(platform.machine(), 'amd64')}"
COORDINATE = f"io.zonky.test.postgres:embedded-postgres-binaries-{PLATFORM}:{VERSION}!"
PASSWORD = "open sesame"
OPTIONS = {
    "wal_level": "logical",
    "max_replication_slots": "40",
    "max_wal_senders": "40",
    "fsync": "off",
    "shared_buffers": "64MB",
    "listen_addresses": "127.0.0.1",
    "wal_sender_timeout": "5s",
}


def fetch() -> Path:
    """Download and unpack the server, once; give its folder."""
    jar = next(jars.resolve(f"postgres-{VERSION}", COORDINATE).glob("*.jar"))
    folder = Path(tempfile.gettempdir()) / f"calve-postgres-{VERSION}-{os.getuid()}"
    if folder.is_dir():
        return folder
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="calve-postgres-") as work:
        target = Path(work) / "pg"
        with zipfile.ZipFile(jar) as archive:
            name = next(name for name in archive.namelist() if name.endswith(".txz"))
            with archive.open(name) as packed, tarfile.open(fileobj=packed, mode="r:xz") as tar:
                tar.extractall(target, filter="data")
        target.chmod(0o755)
        try:
            target.rename(folder)
        except OSError:  # another process was faster
            if not folder.is_dir():
                raise
    return folder


class Postgres(process.Server):
    """One server in a folder of its own; killed and started again it keeps its port and its data.

    Args:
        **options: Settings of the server besides `OPTIONS`.
    """

    _QUIT = signal.SIGINT

    def __init__(self, **options: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="calve-pg-data-"))
        self.port = process.free_ports(1)[0]
        self._options = {**OPTIONS, "unix_socket_directories": str(self.folder), "port": str(self.port), **options}

    def add_options(self, options: Mapping[str, object]) -> None:
        """Set more settings before the start."""
        self._options |= {name: str(value) for name, value in options.items()}

    def start(self) -> Self:
        """Start the server and wait until it answers; makes the database the first time."""
        data = self.folder / "data"
        if not data.exists():
            self._initialise(data)
        settings = [part for name, value in self._options.items() for part in ("-c", f"{name}={value}")]
        command = [*process.as_nobody(), str(fetch() / "bin" / "postgres"), "-D", str(data), *settings]
        self._process = process.start(command, self.folder / "postgres.log")
        process.wait_until(self._answers, "PostgreSQL answers")
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def address(self, user: str = "postgres", database: str = "postgres", password: str = PASSWORD) -> Address:
        """Give what the client connects with."""
        return Address("127.0.0.1", self.port, database, user, password)

    def connect(self, database: str = "postgres", user: str = "postgres") -> PostgresConnection:
        """Open a session."""
        return connect(self.address(user, database), "test")

    def run(self, *statements: str, database: str = "postgres") -> list[Row]:
        """Run statements, each in a transaction of its own; give the rows of the last one."""
        rows: list[Row] = []
        with self.connect(database) as connection:
            for statement in statements:
                rows = connection.query(statement)
        return rows

    def create_database(self, name: str) -> str:
        """Create an empty database; give its name."""
        self.run(f"create database {name}")
        return name

    def _initialise(self, data: Path) -> None:
        password = self.folder / "password"
        password.write_text(PASSWORD)
        for path in (self.folder, password):
            shutil.chown(path, *process.nobody())
        options = [
            "-U",
            "postgres",
            "-A",
            "scram-sha-256",
            "--pwfile",
            str(password),
            "-E",
            "UTF8",
            "--no-locale",
            "-N",
        ]
        command = [*process.as_nobody(), str(fetch() / "bin" / "initdb"), "-D", str(data), *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=self.folder)
        if done.returncode:
            raise RuntimeError(f"cannot make the database: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        hba = data / "pg_hba.conf"
        hba.write_text("host all all 127.0.0.1/32 scram-sha-256\nhost replication all 127.0.0.1/32 scram-sha-256\n")

    def _answers(self) -> bool:
        if self._process is None or self._process.poll() is not None:
            raise RuntimeError("the server ended:\n" + (self.folder / "postgres.log").read_text()[-2000:])
        try:
            self.connect().close()
        except (ClosedError, ServerError):
            return False
        return True


def values(rows: Iterable[Row]) -> list[tuple[str | None, ...]]:
    """Give rows as tuples."""
    return [tuple(row) for row in rows]
