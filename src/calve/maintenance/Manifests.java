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

/** Reads what the manifests of a snapshot list. */
public class Manifests implements Consumer {
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
