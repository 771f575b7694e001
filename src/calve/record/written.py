"""What tasks wrote: the parts that the receipt of a task and the record of a staged batch share.

Tasks write them in their receipts (`calve.record.receipt`), and the ledger keeps them on disk in the record of a staged
batch (`calve.record.staged`). A key that was added later has a default, which older records rely on: it never changes.
"""

from __future__ import annotations

import msgspec

from calve.record.content_file import ContentFile
from calve.record.target import EQUALITY_DELETE, BranchRef, WriteMode

__all__ = ["CommitRejects", "Entries", "FailedRules", "Ignored", "IndexDocuments", "Nulled", "Rejects", "StagedFiles"]


class CommitRejects(msgspec.Struct, frozen=True):
    """Where dead letters go that only the commit of a table finds; all tasks of a batch name the same file.

    Attributes:
        path: The file.
        sink: The sink's name in dead letters.
    """

    path: str
    sink: str


class StagedFiles(msgspec.Struct, frozen=True, omit_defaults=True, rename={"commit_rejects": "lost"}):
    """The files that one task wrote for a branch of a table. Written by tasks; read by the committer and the fence.

    Attributes:
        catalog: The key of the table's catalog.
        table: The table's identifier.
        uuid: The UUID of the table that the files are for.
        files: Data files and delete files. Tasks have them as JSON already: a quarter of the memory.
        rows: How many rows the files add.
        bytes: The length of the files.
        branch: The branch; old records have none, which means `main`.
        write_mode: How the deletes among the files reach the table.
        event_times: The latest event time by origin, in microseconds since the epoch.
        commit_rejects: Where the commit's dead letters go, if it may find any.
        write_as: The format and the write properties of the table's data files, if it is not Parquet: then the commit
            writes them again.
        late: How many events were late: the table was complete through their time when their batch was begun.
    """

    catalog: str
    table: str
    uuid: str
    files: list[ContentFile]
    rows: int
    bytes: int
    branch: str = "main"
    write_mode: WriteMode = EQUALITY_DELETE
    event_times: dict[str, int] = {}
    commit_rejects: CommitRejects | None = None
    late: int = 0
    write_as: dict[str, str] = {}

    @property
    def ref(self) -> BranchRef:
        """Where the files are committed."""
        return BranchRef(self.catalog, self.table, self.branch)


Entries = list[StagedFiles]
"""What a staged record has of one table."""


class IndexDocuments(msgspec.Struct, frozen=True, omit_defaults=True):
    """The documents that one task wrote to an index. Written by tasks; read when the batch is acknowledged.

    Attributes:
        index: The index.
        rows: How many documents it got.
        superseded: How many were skipped because the index has newer ones.
        derived_ids: How many have an id from their event's position, because `document_id` has no value for them.
    """

    index: str
    rows: int
    superseded: int
    derived_ids: int = 0


class Rejects(msgspec.Struct, frozen=True, omit_defaults=True):
    """The dead letters that one task wrote for a sink. Written by tasks and by commits; the driver publishes them.

    Attributes:
        counts: How many, by table (`""` if unknown) and code.
        examples: One reason, by table and code.
        path: The unpublished file; None if the dead letters are rows of a table.
        publish: The final name of this file.
    """

    counts: dict[str, dict[str, int]]
    examples: dict[str, dict[str, str]] = {}
    path: str = ""
    publish: str = ""


class Nulled(msgspec.Struct, frozen=True, array_like=True):
    """The values of one task that became null because they do not fit their column; counted for the status.

    Attributes:
        table: The table's identifier.
        counts: How many, by column.
        reasons: The reason of the first one, by column.
    """

    table: str
    counts: dict[str, int]
    reasons: dict[str, str] = {}


class FailedRules(msgspec.Struct, frozen=True, array_like=True):
    """The rows of one task that did not follow rules of their table; counted for the status.

    Attributes:
        table: The table's identifier.
        counts: How many each rule has rejected, tagged or changed.
    """

    table: str
    counts: dict[str, int]


class Ignored(msgspec.Struct, frozen=True, array_like=True):
    """The events of one task with a field that has no column; counted for the status.

    Attributes:
        table: The table's identifier.
        counts: How many, by field.
    """

    table: str
    counts: dict[str, int]
