"""What the manifests of a snapshot list, read in the JVM: through py4j each file would cost several calls."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from calve.engine.compiled import compiled

__all__ = ["Census", "Manifests"]

_JAVA = """
import java.util.ArrayList;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Set;
import java.util.function.Consumer;
import org.apache.iceberg.ContentFile;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileContent;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.ManifestFile;
import org.apache.iceberg.ManifestFiles;
import org.apache.iceberg.RewriteFiles;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.Table;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.util.ScanTaskUtil;

public class %s implements Consumer {
  public long[] count(Table table, Snapshot snapshot) throws Exception {
    long[] counts = new long[6];
    Iterator manifests = snapshot.allManifests(table.io()).iterator();
    while (manifests.hasNext()) {
      CloseableIterable files = open(table, (ManifestFile) manifests.next());
      for (Iterator each = files.iterator(); each.hasNext();) {
        ContentFile file = (ContentFile) each.next();
        counts[file.content().id()] += 1;
        counts[3] += file.content() == FileContent.EQUALITY_DELETES ? file.recordCount() : 0;
        counts[4] += file.content() == FileContent.DATA ? file.recordCount() : 0;
        counts[5] += ScanTaskUtil.contentSizeInBytes(file);
      }
      files.close();
    }
    return counts;
  }

  public List unneeded(Table table, Snapshot snapshot) throws Exception {
    Set needed = new HashSet();
    CloseableIterable tasks = table.newScan().useSnapshot(snapshot.snapshotId()).planFiles();
    for (Iterator each = tasks.iterator(); each.hasNext();) {
      Iterator deletes = ((FileScanTask) each.next()).deletes().iterator();
      while (deletes.hasNext()) {
        needed.add(((DeleteFile) deletes.next()).location());
      }
    }
    tasks.close();
    List found = new ArrayList();
    Iterator manifests = snapshot.deleteManifests(table.io()).iterator();
    while (manifests.hasNext()) {
      CloseableIterable files = open(table, (ManifestFile) manifests.next());
      for (Iterator each = files.iterator(); each.hasNext();) {
        DeleteFile file = (DeleteFile) each.next();
        if (file.content() == FileContent.EQUALITY_DELETES && !needed.contains(file.location())) {
          found.add(file.copy());
        }
      }
      files.close();
    }
    return found;
  }

  public void remove(RewriteFiles update, List deletes) {
    for (Iterator each = deletes.iterator(); each.hasNext();) {
      update.deleteFile((DeleteFile) each.next());
    }
  }

  public void accept(Object path) {
  }

  private CloseableIterable open(Table table, ManifestFile manifest) {
    return manifest.content().name().equals("DATA")
        ? (CloseableIterable) ManifestFiles.read(manifest, table.io(), table.specs())
        : (CloseableIterable) ManifestFiles.readDeleteManifest(manifest, table.io(), table.specs());
  }
}
"""


@dataclass(frozen=True)
class Census:
    """What a branch of a table consists of.

    Attributes:
        data_files: Files with rows.
        rows: Rows in them, deleted ones too.
        position_delete_files: Files with positions of deleted rows, and deletion vectors.
        equality_delete_files: Files with keys of deleted rows.
        equality_deletes: Keys in them.
        size_bytes: Of all these files.
        snapshots: Of the table, on any branch.
    """

    data_files: int = 0
    rows: int = 0
    position_delete_files: int = 0
    equality_delete_files: int = 0
    equality_deletes: int = 0
    size_bytes: int = 0
    snapshots: int = 0

    def to_dict(self) -> dict[str, int]:
        """Give the figures as JSON values."""
        return asdict(self)


class Manifests:
    """The compiled loops of one JVM.

    Attributes:
        java: It takes paths as a `Consumer` and does nothing with them, so that an action that deletes only tells.
    """

    def __init__(self, jvm: Any) -> None:
        self.java: Any = compiled(jvm, _JAVA)

    def count(self, table: Any, branch: str) -> Census:
        """Count what a branch of a Java table consists of."""
        snapshot, snapshots = table.snapshot(branch), sum(1 for _ in table.snapshots())
        if snapshot is None:
            return Census(snapshots=snapshots)
        data, positions, equality, keys, rows, size = self.java.count(table, snapshot)
        return Census(data, rows, positions, equality, keys, size, snapshots)

    def unneeded(self, table: Any, snapshot: Any) -> Any:
        """Give the Java list of a snapshot's equality deletes that no scan of it applies to any data file.

        Iceberg's own planning decides; what it leaves out is older than every data file it could reach, or names keys
        outside their bounds, and rows that are written later it does not reach (specification, "Scan Planning").
        """
        return self.java.unneeded(table, snapshot)

    def remove(self, update: Any, deletes: Any) -> None:
        """Let a Java `RewriteFiles` remove delete files."""
        self.java.remove(update, deletes)
