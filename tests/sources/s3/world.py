"""A prefix of a bucket in a real object store, and sources that read it."""

from __future__ import annotations

import pickle
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

import obstore
import pyarrow as pa

from calve.sources.s3 import source
from calve.sources.s3.objects import store_of
from calve.sources.s3.settings import AwsAccount, Bucket, BucketEntry, Filter, S3SourceSettings, Scan, Scheduling
from calve.sources.s3.source import S3Source
from calve.sources.source import Planned
from calve.state.local_folder import LocalFolder
from services.objects import ACCESS_KEY, BUCKET, REGION, SECRET_KEY, ObjectStore
from sources.file.texts import events

ALL = 1 << 40
OBJECT = ("s3_bucket", "s3_key", "s3_etag")


class World:
    """A prefix of a bucket, and sources that read it."""

    def __init__(self, store: ObjectStore, folder: Path) -> None:
        self.folder, self.prefix = folder, f"{uuid.uuid4().hex}/"
        self.aws = AwsAccount(
            region=REGION, endpoint=store.endpoint, access_key_id=ACCESS_KEY, secret_access_key=SECRET_KEY
        )
        self.wrong = AwsAccount(
            region=REGION, endpoint=store.endpoint, access_key_id="nobody", secret_access_key="x" * 20
        )
        self.store = store_of(self.aws, BUCKET)

    def put(self, name: str, data: bytes = b'{"a":1}\n') -> str:
        return str(obstore.put(self.store, self.prefix + name, data)["e_tag"])

    def scan(self, bucket: str = BUCKET, exclude: tuple[str, ...] = (), **options: Any) -> S3Source:
        """Return a source that lists the prefix at every look."""
        chosen = Filter(include_prefix=[self.prefix], exclude_suffix=list(exclude) or None)
        buckets = [BucketEntry(bucket=Bucket(name=bucket, filter=chosen))]
        scan = Scan(buckets=buckets, scheduling=Scheduling(interval=timedelta(0)))
        return self.source(scan=scan, **options)

    def source(self, **options: Any) -> S3Source:
        return source.open(S3SourceSettings(**({"aws": self.aws} | options)), LocalFolder(self.folder / "s3"), "p")

    def names(self, planned: Planned | None) -> list[str]:
        found = [split.body["object"]["key"] for split in planned.splits] if planned else []
        return [key.removeprefix(self.prefix) for key in found]


def read(opened: S3Source, planned: Planned | None) -> list[pa.RecordBatch]:
    assert planned
    reader = pickle.loads(pickle.dumps(opened.reader))
    return [batch for split in planned.splits for batch in reader.read(split)]


def texts(opened: S3Source, planned: Planned | None) -> list[bytes]:
    return events(batch.drop_columns(list(OBJECT)) for batch in read(opened, planned))
