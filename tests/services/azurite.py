"""Azurite: Azure Blob Storage, as its makers emulate it, on a free port of loopback."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Self

from pyarrow import fs

from services import packages, process

VERSION = "3.35.0"
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The account and the key that every Azurite has."""
CONTAINER = "states"
MISSING = "Azurite needs npm and node"


def fetch() -> Path | None:
    """Download the server, once; give its folder, or None where it cannot be had."""
    return packages.install_npm(f"azurite-{VERSION}", f"azurite@{VERSION}") if shutil.which("node") else None


class Azurite(process.Server):
    """One server with one container; a context manager.

    Args:
        folder: Where its data and its output go.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        [self.port] = process.free_ports(1)

    def start(self) -> Self:
        """Start it and wait until it answers."""
        main, log = f"{fetch()}/node_modules/azurite/dist/src/blob/main.js", self._folder / "azurite.log"
        where = ["--blobHost", "127.0.0.1", "--blobPort", str(self.port), "--location", str(self._folder / "data")]
        command = ["node", main, *where, "--skipApiVersionCheck", "--disableTelemetry", "--silent"]
        self._process = process.start(command, log)
        process.wait_for_port(self._process, self.port, log)
        address = {"blob_storage_authority": f"127.0.0.1:{self.port}", "blob_storage_scheme": "http"}
        fs.AzureFileSystem(ACCOUNT, account_key=KEY, **address).create_dir(CONTAINER)
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def environment(self) -> dict[str, str]:
        """What its clients read from the environment."""
        endpoint = f"http://127.0.0.1:{self.port}/{ACCOUNT}"
        return {
            "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": KEY,
            "AZURE_STORAGE_ENDPOINT": endpoint,
        }

    def place(self, name: str) -> str:
        """An address in the container."""
        return f"az://{CONTAINER}/{name}"
