"""PyIceberg's FileIO that writes to S3 with the keys of a role (`dlq.s3.sts_role_arn`); on the driver and executors."""

from __future__ import annotations

import pyarrow.fs as pafs
from pyiceberg.io.pyarrow import PyArrowFileIO

from calve.dead_letters.settings import EXTERNAL_ID, ROLE
from calve.sources.s3.keys import keys_of
from calve.sources.s3.settings import AwsAccount

__all__ = ["RoleFileIO"]


class RoleFileIO(PyArrowFileIO):
    """A FileIO for a few files: it takes the keys that the role has now, and they end."""

    def _initialize_s3_fs(self, netloc: str | None) -> pafs.FileSystem:
        given = self.properties
        account = AwsAccount(
            region=given.get("s3.region"),
            sts_role_arn=given[ROLE],
            sts_external_id=given.get(EXTERNAL_ID),
            access_key_id=given.get("s3.access-key-id"),
            secret_access_key=given.get("s3.secret-access-key"),
        )
        keys = keys_of(account).keys
        lent = {"s3.access-key-id": keys.access, "s3.secret-access-key": keys.secret, "s3.session-token": keys.token}
        return PyArrowFileIO({**given, **lent})._initialize_s3_fs(netloc)
