"""The object store that other tests rely on."""

import contextlib

import pytest
from pyarrow import fs
from pyiceberg.catalog import load_catalog

from kit.running import until
from services.objects import BUCKET, ObjectStore

pytestmark = pytest.mark.services


def read(store):
    """Read the file; after a start the store lists files before it can read them."""
    with (
        contextlib.suppress(OSError),
        fs.S3FileSystem(**store.s3()).open_input_stream(f"{BUCKET}/a/b.txt") as kept,
    ):
        return kept.read()


def test_files_and_tables_outlive_a_kill(tmp_path):
    with ObjectStore(tmp_path) as store:
        files = fs.S3FileSystem(**store.s3())
        with files.open_output_stream(f"{BUCKET}/a/b.txt") as output:
            output.write(b"kept")
        load_catalog("rest", **store.rest_catalog()).create_namespace("db")
        store.kill()
        store.start()
        assert until(lambda: read(store), "the store has its files again") == b"kept"
        assert load_catalog("rest", **store.rest_catalog()).list_namespaces() == [("db",)]
