"""The object store that other tests rely on."""

import pytest
from pyarrow import fs
from pyiceberg.catalog import load_catalog

from services.objects import BUCKET, ObjectStore

pytestmark = pytest.mark.services


def test_files_and_tables_outlive_a_kill(tmp_path):
    with ObjectStore(tmp_path) as store:
        files = fs.S3FileSystem(**store.s3())
        with files.open_output_stream(f"{BUCKET}/a/b.txt") as output:
            output.write(b"kept")
        load_catalog("rest", **store.rest_catalog()).create_namespace("db")
        store.kill()
        store.start()
        with fs.S3FileSystem(**store.s3()).open_input_stream(f"{BUCKET}/a/b.txt") as kept:
            assert kept.read() == b"kept"
        assert load_catalog("rest", **store.rest_catalog()).list_namespaces() == [("db",)]
