"""One attempt to commit to a table, in few calls to the JVM: inspect, update a transaction, compare and swap.

Through py4j alone a commit takes a hundred calls, and each file two more.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from calve import structs
from calve.catalog.trust import Trust
from calve.engine.java.errors import called
from calve.record.content_file import ContentFile
from calve.table.loaded import Table

__all__ = ["Attempt", "InspectedTable", "Swapped", "WaitingSnapshots", "table_of"]


class InspectedTable(NamedTuple):
    """The state of a table when an attempt begins.

    Attributes:
        uuid: The table's UUID.
        mark: The value of the requested property, or None.
        has_branch: Whether the branch exists, or a tag of its name.
        is_tag: Whether it is a tag.
        is_empty: Whether `main` has no snapshot.
        specs: The ids of the partition specs; True for a spec without partitions.
        properties: The table's properties.
    """

    uuid: str
    mark: str | None
    has_branch: bool
    is_tag: bool
    is_empty: bool
    specs: dict[int, bool]
    properties: dict[str, str]


class Swapped(NamedTuple):
    """The state of a table after the swap.

    Attributes:
        snapshot_id: The branch's snapshot; None: the branch was removed.
        summary: Its summary.
        table: The new table, without a metadata location.
        snapshots: How many snapshots the table has.
        replaced_ms: When files were last rewritten, as epoch milliseconds; 0: never.
        manifest_list_bytes: The size of the snapshot's list of manifests; 0: few, or not known.
    """

    snapshot_id: int | None
    summary: dict[str, str]
    table: Table
    snapshots: int
    replaced_ms: int
    manifest_list_bytes: int

    def total(self, what: str) -> int:
        """Return a total of the summary, e.g. of `data-files`; 0 if Iceberg wrote none."""
        return int(self.summary.get(f"total-{what}") or 0)


class WaitingSnapshots(msgspec.Struct, frozen=True):
    """What a branch has and `main` lacks.

    Attributes:
        main: The snapshot of `main`.
        base: The last snapshot that both have; None: there is none.
        has_branch: Whether the branch exists.
        is_cut: Whether the snapshot before the oldest one has expired.
        is_set_back: Whether `main` had some of them before, and was set back.
        line: The snapshots, oldest first: id, operation and summary.
    """

    main: int | None
    base: int | None
    has_branch: bool
    is_cut: bool
    is_set_back: bool
    line: list[tuple[int, str | None, dict[str, str]]]


class Attempt:
    """One attempt on one loaded table (`Attempt.java`); its methods raise what py4j raises.

    Args:
        identifier: Namespace and name of the table.
        java: The Java object.
        trust: What the table may decide.

    Attributes:
        superseded: The paths of staged data files that are not in its snapshots, because other files have their rows.
    """

    def __init__(self, identifier: str, java: Any, trust: Trust) -> None:
        self._identifier = identifier
        self._java = java
        self._trust = trust
        self.superseded = set[str]()

    @property
    def table(self) -> Any:
        """The Java `Table`."""
        return self._java.table()

    def inspect(self, branch: str, key: str = "") -> InspectedTable:
        """Inspect the table; the attempt is based on its current state.

        Args:
            branch: The branch that will get a snapshot.
            key: The property of the table to return as the mark.

        Raises:
            UnsupportedError: Its metadata would be written, or deleted, at a place that a table may not choose.
        """
        described = json.loads(called(self._java, "look", branch, key))
        self._trust.check(self._identifier, described.pop("location"), described["properties"])
        self._trust.check_old_metadata(self._identifier, described.pop("old_metadata"))
        return InspectedTable(**{**described, "specs": dict(described["specs"])})

    def load(self) -> Table:
        """Return the inspected table.

        Raises:
            UnsupportedError: Its files would be at a place that a table may not choose.
        """
        return table_of(self._identifier, json.loads(called(self._java, "describe", self.table)), self._trust)

    @property
    def start(self) -> Any:
        """The Java `TableMetadata` that was inspected."""
        return self._java.start()

    @cached_property
    def transaction(self) -> Any:
        """The Java `Transaction` whose result will replace it."""
        return self._java.transaction()

    def append(self, branch: str, files: Sequence[ContentFile], summary: Mapping[str, str]) -> None:
        """Add a snapshot with these data files to the transaction.

        Args:
            branch: The branch that gets it.
            files: Data files.
            summary: Added to the summary that Iceberg writes.
        """
        called(self._java, "append", branch, msgspec.json.encode(files).decode(), json.dumps(summary))

    def change(self, branch: str, files: Sequence[ContentFile], summary: Mapping[str, str]) -> None:
        """Add a snapshot with these data files and delete files; otherwise as `append`."""
        called(self._java, "change", branch, msgspec.json.encode(files).decode(), json.dumps(summary))

    def delete(
        self, branch: str, files: Sequence[ContentFile], added: Any, removed: Any, summary: Mapping[str, str]
    ) -> None:
        """Add a snapshot with data files, and deletes by position that were written for this attempt.

        Args:
            branch: The branch that gets it.
            files: Data files.
            added: A Java list of delete files; a refused attempt removes them.
            removed: A Java list of delete files that these replace.
            summary: Added to the summary that Iceberg writes.
        """
        texts = msgspec.json.encode(files).decode(), json.dumps(summary)
        called(self._java, "change", branch, texts[0], added, removed, texts[1])

    def java_files(self, files: Sequence[ContentFile]) -> Any:
        """Return staged files as a Java list of `ContentFile`."""
        return called(self._java, "files", msgspec.json.encode(files).decode())

    def own(self, files: Sequence[ContentFile], superseded: Iterable[str] = ()) -> None:
        """Note data files that were written for this attempt: it removes them if it is refused.

        Args:
            files: The files.
            superseded: The paths of staged files whose rows they have.
        """
        self.superseded.update(superseded)
        if files:
            called(self._java, "own", json.dumps([file.file_path for file in files]))

    def replace(
        self,
        branch: str,
        added: Any,
        removed: Any,
        files: Sequence[ContentFile] = (),
        gone: Any = None,
        sequence_number: int = 0,
    ) -> None:
        """Add a snapshot that replaces files by others, which have the same rows and delete the same ones.

        Args:
            branch: The branch that gets it.
            added: A Java list of delete files; a refused attempt removes them.
            removed: A Java list of delete files.
            files: Data files; a refused attempt leaves them.
            gone: A Java list of the data files that they replace.
            sequence_number: The sequence number of `files`: later equality deletes apply to their rows.
        """
        texts = msgspec.json.encode(files).decode(), "{}"
        called(self._java, "replace", branch, texts[0], gone, sequence_number, added, removed, texts[1])

    def waiting(self, branch: str) -> WaitingSnapshots:
        """Return what a branch has and `main` lacks, with the snapshots of this attempt."""
        return structs.decode(called(self._java, "waiting", branch), WaitingSnapshots)

    def point(self, branch: str, snapshot: int) -> None:
        """Let a branch point to a snapshot; a missing branch is created."""
        called(self._java, "point", branch, snapshot)

    def remove_branch(self, branch: str) -> None:
        """Remove a branch; its snapshots stay until they expire."""
        called(self._java, "removeBranch", branch)

    def clear(self, branch: str, summary: Mapping[str, str]) -> None:
        """Add a snapshot without any row to the transaction."""
        called(self._java, "clear", branch, json.dumps(summary))

    def discard(self) -> None:
        """Remove the files of an attempt that does not end in a swap; staged files stay."""
        called(self._java, "discard")

    def swap(self, branch: str, mark: tuple[str, str] | None = None) -> Swapped:
        """Replace the inspected metadata by the transaction's; a refused attempt leaves nothing behind.

        Args:
            branch: The branch that got a snapshot.
            mark: A property that the table gets in the same commit: key and value.
        """
        described = json.loads(called(self._java, "swap", branch, *(mark or (None, None))))
        table = table_of(self._identifier, described["table"], self._trust)
        return Swapped(
            described["snapshot"],
            described["summary"],
            table,
            described["snapshots"],
            described["replaced"],
            described["listBytes"],
        )


def table_of(identifier: str, described: Mapping[str, Any], trust: Trust) -> Table:
    """Return a table from what `Attempt.java` describes.

    Raises:
        UnsupportedError: Its files would be at a place that a table may not choose.
    """
    trust.check(identifier, described["location"], described["properties"])
    return Table(
        identifier=identifier,
        uuid=described["uuid"],
        location=described["location"].rstrip("/"),
        schema_json=described["schema"],
        spec_json=described["spec"],
        format_version=described["version"],
        properties=described["properties"],
        io_properties=trust.storage(described["io"]),
        sort_order_json=described["order"],
        has_other_specs=len(described["specs"]) > 1,
        unpartitioned_spec_id=next(
            (number for number, is_unpartitioned in described["specs"] if is_unpartitioned), None
        ),
        metadata_location=described["file"] or "",
    )
