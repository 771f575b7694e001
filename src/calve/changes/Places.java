import java.util.ArrayList;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.iceberg.ContentFile;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.ManifestContent;
import org.apache.iceberg.ManifestFile;
import org.apache.iceberg.ManifestFiles;
import org.apache.iceberg.PartitionStatisticsFile;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.StatisticsFile;
import org.apache.iceberg.Table;
import org.apache.iceberg.io.CloseableIterable;

/**
 * Finds files that a table lists and that lie where a table may not choose: who writes its metadata can list any path.
 *
 * <p>Its own are those in its folders. Others in the same store may be read, as tables that were migrated have them, but
 * never a file of this machine, and none of another store.
 */
public class Places {
  private static final String[] FOLDERS = {
    "write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path"
  };
  private static final int MOST = 1000000;
  private static final Set CHECKED = Collections.newSetFromMap(new ConcurrentHashMap());

  private final List folders = new ArrayList();
  private final String key;
  private final Table table;
  private final boolean onlyOwn;

  /** With `onlyOwn` any file outside of its folders is found. */
  public Places(Table table, boolean onlyOwn) {
    this.table = table;
    this.onlyOwn = onlyOwn;
    folders.add(plain(table.location()) + "/");
    for (int i = 0; i < FOLDERS.length; i++) {
      String folder = (String) table.properties().get(FOLDERS[i]);
      if (folder != null) {
        folders.add(plain(folder) + "/");
      }
    }
    key = folders + (onlyOwn ? " own " : " ");
  }

  /** The first such file of scan tasks; null: there is none. */
  public String ofTasks(List tasks) {
    for (Iterator each = tasks.iterator(); each.hasNext();) {
      FileScanTask task = (FileScanTask) each.next();
      if (isOutside(task.file().location())) {
        return task.file().location();
      }
      for (Iterator deletes = task.deletes().iterator(); deletes.hasNext();) {
        String location = ((ContentFile) deletes.next()).location();
        if (isOutside(location)) {
          return location;
        }
      }
    }
    return null;
  }

  /** The first such file that snapshots list, with their lists and statistics; null: there is none. */
  public String ofSnapshots(List snapshots) throws Exception {
    for (Iterator each = snapshots.iterator(); each.hasNext();) {
      Snapshot snapshot = (Snapshot) each.next();
      String location = snapshot.manifestListLocation();
      if (location != null && isOutside(location)) {
        return location;
      }
      for (Iterator all = snapshot.allManifests(table.io()).iterator(); all.hasNext();) {
        location = ofManifest((ManifestFile) all.next());
        if (location != null) {
          return location;
        }
      }
    }
    return ofStatistics();
  }

  private String ofStatistics() {
    for (Iterator each = table.statisticsFiles().iterator(); each.hasNext();) {
      String location = ((StatisticsFile) each.next()).path();
      if (isOutside(location)) {
        return location;
      }
    }
    for (Iterator each = table.partitionStatisticsFiles().iterator(); each.hasNext();) {
      String location = ((PartitionStatisticsFile) each.next()).path();
      if (isOutside(location)) {
        return location;
      }
    }
    return null;
  }

  private String ofManifest(ManifestFile manifest) throws Exception {
    if (isOutside(manifest.path())) {
      return manifest.path();
    }
    String name = key + manifest.path();
    if (CHECKED.contains(name)) {
      return null;
    }
    boolean isData = manifest.content() == ManifestContent.DATA;
    CloseableIterable files = isData
        ? (CloseableIterable) ManifestFiles.read(manifest, table.io(), table.specs())
        : (CloseableIterable) ManifestFiles.readDeleteManifest(manifest, table.io(), table.specs());
    try {
      for (Iterator each = files.iterator(); each.hasNext();) {
        String location = ((ContentFile) each.next()).location();
        if (isOutside(location)) {
          return location;
        }
      }
    } finally {
      files.close();
    }
    if (CHECKED.size() > MOST) {
      CHECKED.clear();
    }
    CHECKED.add(name);
    return null;
  }

  private boolean isOutside(String location) {
    String path = plain(location);
    if ((path + "/").contains("/../") || path.contains("/./")) {
      return true;
    }
    for (Iterator each = folders.iterator(); each.hasNext();) {
      if (path.startsWith((String) each.next())) {
        return false;
      }
    }
    return onlyOwn || !isSameStore(path);
  }

  private boolean isSameStore(String path) {
    for (Iterator each = folders.iterator(); each.hasNext();) {
      String store = store((String) each.next());
      if (!store.isEmpty() && store.equals(store(path))) {
        return true;
      }
    }
    return false;
  }

  /** The scheme; empty for a file of this machine. */
  private static String store(String path) {
    int end = path.indexOf("://");
    return end < 0 ? "" : path.substring(0, end);
  }

  /** A location without the end and the spellings of one place. */
  private static String plain(String location) {
    String path = location.replaceFirst("^file:/+", "/").replaceFirst("^s3[an]://", "s3://");
    return path.replaceFirst("/+$", "");
  }
}
