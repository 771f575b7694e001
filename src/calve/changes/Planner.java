import java.io.IOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.iceberg.BaseFileScanTask;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.PartitionField;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.PartitionSpecParser;
import org.apache.iceberg.Schema;
import org.apache.iceberg.SchemaParser;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SnapshotChanges;
import org.apache.iceberg.StructLike;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableScan;
import org.apache.iceberg.expressions.Expression;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.expressions.ResidualEvaluator;
import org.apache.iceberg.expressions.UnboundTerm;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.spark.ScanTaskSetManager;
import org.apache.iceberg.spark.SparkSchemaUtil;
import org.apache.iceberg.spark.source.SparkRewriteTable;
import org.apache.iceberg.util.NaNUtil;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.types.StructType;

/**
 * Finds the files whose rows tell what one snapshot changed, and stages them for Spark.
 *
 * <p>Four sets of scan tasks, of which any may be empty: ADDED (rows of new files, live at the snapshot), REMOVED (rows
 * of files that went, live at its parent), DELETED (files that stay and whose deletes changed, with the snapshot's
 * deletes) and RESTORED (the same files with the parent's deletes; both are read for their deleted rows).
 */
public class Planner {
  private final Table table;
  private final String id;
  private final Map sets = new LinkedHashMap();
  private int until;
  private int files;

  public Planner(Table table, String id) {
    this.table = table;
    this.id = id;
    sets.put("ADDED", new ArrayList());
    sets.put("REMOVED", new ArrayList());
    sets.put("DELETED", new ArrayList());
    sets.put("RESTORED", new ArrayList());
  }

  /**
   * Plan what a snapshot holds, as if nothing had been before: of its files, in the order of their locations, those
   * behind the first `from`, about `maxBytes` of them and at least one.
   */
  public void planWhole(long snapshotId, int from, long maxBytes) throws IOException {
    TreeMap found = new TreeMap(scanned(snapshotId));
    Iterator each = found.values().iterator();
    files = found.size();
    long bytes = 0;
    for (until = 0; each.hasNext() && (until <= from || bytes < maxBytes); until++) {
      FileScanTask task = (FileScanTask) each.next();
      if (until >= from) {
        tasks("ADDED").add(task);
        bytes += task.file().fileSizeInBytes();
      }
    }
  }

  /** The scan tasks of a set. */
  public List staged(String set) {
    return tasks(set);
  }

  /** How many of its files `planWhole` has behind it, and how many there are. */
  public int until() {
    return until;
  }

  public int files() {
    return files;
  }

  /** Plan what is different between two retained snapshots, whatever led from one to the other. */
  public void planBetween(long fromId, long untilId) throws IOException {
    Map before = scanned(fromId);
    for (Iterator each = scanned(untilId).values().iterator(); each.hasNext();) {
      FileScanTask task = (FileScanTask) each.next();
      FileScanTask earlier = (FileScanTask) before.remove(task.file().location());
      if (earlier == null) {
        tasks("ADDED").add(task);
      } else {
        compare(earlier, task);
      }
    }
    tasks("REMOVED").addAll(before.values());
  }

  /** All files of a snapshot with their deletes, by location. */
  private Map scanned(long snapshotId) throws IOException {
    Map found = new HashMap();
    CloseableIterable tasks = ((TableScan) table.newScan().useSnapshot(snapshotId)).planFiles();
    try {
      for (Iterator each = tasks.iterator(); each.hasNext();) {
        FileScanTask task = (FileScanTask) each.next();
        found.put(task.file().location(), task);
      }
    } finally {
      tasks.close();
    }
    return found;
  }

  /** Stage a file that stays, where its deletes are not what they were. */
  private void compare(FileScanTask earlier, FileScanTask task) {
    if (keys(task).equals(keys(earlier))) {
      return;
    }
    if (!task.deletes().isEmpty()) {
      tasks("DELETED").add(task);
    }
    if (earlier != null && !earlier.deletes().isEmpty()) {
      tasks("RESTORED").add(earlier);
    }
  }

  /** Say whether a snapshot can be planned without its parent: it only added files. */
  public boolean onlyAdds(long snapshotId) {
    SnapshotChanges changes = SnapshotChanges.builderFor(table).snapshot(table.snapshot(snapshotId)).build();
    return isEmpty(changes.removedDataFiles())
        && isEmpty(changes.addedDeleteFiles())
        && isEmpty(changes.removedDeleteFiles());
  }

  /** Plan what a snapshot changed; the parent is null for the first one, or one that only adds. */
  public void plan(long snapshotId, Long parentId) throws IOException {
    Snapshot snapshot = table.snapshot(snapshotId);
    SnapshotChanges changes = SnapshotChanges.builderFor(table).snapshot(snapshot).build();
    Map added = byLocation(changes.addedDataFiles());
    Map removed = byLocation(changes.removedDataFiles());
    List deletes = new ArrayList();
    addAll(deletes, changes.addedDeleteFiles());
    addAll(deletes, changes.removedDeleteFiles());
    if (parentId != null) {
      Map before = planBefore(table.snapshot(parentId.longValue()), removed, deletes);
      if (!deletes.isEmpty()) {
        planAfter(snapshotId, added, deletes, before);
      }
    }
    stageRest("ADDED", added.values());
    stageRest("REMOVED", removed.values());
  }

  /** Give the tasks of files that stay and have deletes at the parent, by location; stage the removed ones. */
  private Map planBefore(Snapshot parent, Map removed, List deletes) throws IOException {
    Map before = new HashMap();
    boolean mayHaveDeletes = !parent.deleteManifests(table.io()).isEmpty();
    if (!mayHaveDeletes || (removed.isEmpty() && deletes.isEmpty())) {
      return before;
    }
    List touched = new ArrayList(deletes);
    touched.addAll(removed.values());
    CloseableIterable found = scan(parent.snapshotId(), touched).planFiles();
    try {
      for (Iterator each = found.iterator(); each.hasNext();) {
        FileScanTask task = (FileScanTask) each.next();
        if (removed.remove(task.file().location()) != null) {
          tasks("REMOVED").add(task);
        } else if (!task.deletes().isEmpty()) {
          before.put(task.file().location(), task);
        }
      }
    } finally {
      found.close();
    }
    return before;
  }

  /** Stage added files with their deletes, and files that stay and whose deletes are not what they were. */
  private void planAfter(long snapshotId, Map added, List deletes, Map before) throws IOException {
    CloseableIterable found = scan(snapshotId, deletes).planFiles();
    try {
      for (Iterator each = found.iterator(); each.hasNext();) {
        FileScanTask task = (FileScanTask) each.next();
        String location = task.file().location();
        FileScanTask earlier = (FileScanTask) before.get(location);
        if (added.remove(location) != null) {
          tasks("ADDED").add(task);
        } else {
          compare(earlier, task);
        }
      }
    } finally {
      found.close();
    }
  }

  private static Set keys(FileScanTask task) {
    Set keys = new HashSet();
    if (task != null) {
      for (Iterator each = task.deletes().iterator(); each.hasNext();) {
        DeleteFile file = (DeleteFile) each.next();
        keys.add(file.location() + "#" + file.contentOffset()); // vectors share files
      }
    }
    return keys;
  }

  /** A scan of all files that lie in a partition of the given ones; files of other partitions may be among them. */
  private TableScan scan(long snapshotId, List files) {
    TableScan scan = (TableScan) ((TableScan) table.newScan().useSnapshot(snapshotId)).ignoreResiduals();
    Map bySpec = new HashMap();
    for (Iterator each = files.iterator(); each.hasNext();) {
      org.apache.iceberg.ContentFile file = (org.apache.iceberg.ContentFile) each.next();
      List partitions = (List) bySpec.get(Integer.valueOf(file.specId()));
      if (partitions == null) {
        partitions = new ArrayList();
        bySpec.put(Integer.valueOf(file.specId()), partitions);
      }
      partitions.add(file.partition());
    }
    Expression filter = Expressions.alwaysFalse();
    for (Iterator each = bySpec.entrySet().iterator(); each.hasNext();) {
      Map.Entry entry = (Map.Entry) each.next();
      PartitionSpec spec = (PartitionSpec) table.specs().get(entry.getKey());
      filter = Expressions.or(filter, within(scan.schema(), spec, (List) entry.getValue()));
    }
    return (TableScan) scan.filter(filter);
  }

  /** What holds for every row of these partitions: each partition field has one of their values. */
  private static Expression within(Schema schema, PartitionSpec spec, List partitions) {
    Expression all = Expressions.alwaysTrue();
    for (int position = 0; position < spec.fields().size(); position++) {
      PartitionField field = (PartitionField) spec.fields().get(position);
      String column = schema.findColumnName(field.sourceId());
      if (column == null || field.transform().isVoid()) {
        continue; // a column that was dropped: nothing to look for
      }
      Set values = new HashSet();
      boolean hasNull = false;
      boolean hasNaN = false;
      for (Iterator each = partitions.iterator(); each.hasNext();) {
        Object value = ((StructLike) each.next()).get(position, Object.class);
        hasNull = hasNull || value == null;
        hasNaN = hasNaN || (value != null && NaNUtil.isNaN(value));
        if (value != null && !NaNUtil.isNaN(value)) {
          values.add(value instanceof CharSequence ? value.toString() : value);
        }
      }
      all = Expressions.and(all, oneOf(term(column, field), values, hasNull, hasNaN));
    }
    return all;
  }

  private static UnboundTerm term(String column, PartitionField field) {
    return field.transform().isIdentity()
        ? (UnboundTerm) Expressions.ref(column)
        : (UnboundTerm) Expressions.transform(column, field.transform());
  }

  private static Expression oneOf(UnboundTerm term, Set values, boolean hasNull, boolean hasNaN) {
    Expression any = values.isEmpty() ? (Expression) Expressions.alwaysFalse() : Expressions.in(term, (Iterable) values);
    any = hasNull ? Expressions.or(any, Expressions.isNull(term)) : any;
    return hasNaN ? Expressions.or(any, Expressions.isNaN(term)) : any;
  }

  /** Stage files that no delete applies to. */
  private void stageRest(String name, Collection files) {
    String schema = SchemaParser.toJson(table.schema());
    ResidualEvaluator all = ResidualEvaluator.unpartitioned(Expressions.alwaysTrue());
    Map specs = new HashMap();
    for (Iterator each = files.iterator(); each.hasNext();) {
      DataFile file = (DataFile) each.next();
      Integer specId = Integer.valueOf(file.specId());
      if (!specs.containsKey(specId)) {
        specs.put(specId, PartitionSpecParser.toJson((PartitionSpec) table.specs().get(specId)));
      }
      tasks(name).add(new BaseFileScanTask(file, new DeleteFile[0], schema, (String) specs.get(specId), all));
    }
  }

  private List tasks(String name) {
    return (List) sets.get(name);
  }

  private static boolean isEmpty(Iterable files) {
    return !files.iterator().hasNext();
  }

  private static void addAll(Collection to, Iterable files) {
    for (Iterator each = files.iterator(); each.hasNext();) {
      to.add(each.next());
    }
  }

  private static Map byLocation(Iterable files) {
    Map found = new LinkedHashMap();
    for (Iterator each = files.iterator(); each.hasNext();) {
      DataFile file = (DataFile) each.next();
      found.put(file.location(), file);
    }
    return found;
  }

  /**
   * Every retained snapshot of the table as JSON: first the line that ends at `head`, newest first, then the others.
   * A line: [id, parent or null, sequence number, milliseconds, operation, bytes of files that came and went, on the line].
   */
  public static String history(Table table, Long head) {
    StringBuilder text = new StringBuilder("[");
    Set line = new HashSet();
    Snapshot snapshot = head == null ? null : table.snapshot(head.longValue());
    while (snapshot != null) {
      line.add(Long.valueOf(snapshot.snapshotId()));
      describe(text, snapshot, true);
      snapshot = snapshot.parentId() == null ? null : table.snapshot(snapshot.parentId().longValue());
    }
    for (Iterator each = table.snapshots().iterator(); each.hasNext();) {
      snapshot = (Snapshot) each.next();
      if (!line.contains(Long.valueOf(snapshot.snapshotId()))) {
        describe(text, snapshot, false);
      }
    }
    return text.append("]").toString();
  }

  private static void describe(StringBuilder text, Snapshot snapshot, boolean isOnLine) {
    text.append(text.length() > 1 ? ",[" : "[").append(snapshot.snapshotId());
    text.append(",").append(snapshot.parentId()).append(",").append(snapshot.sequenceNumber());
    text.append(",").append(snapshot.timestampMillis()).append(",\"").append(snapshot.operation());
    Map summary = snapshot.summary();
    long bytes = number(summary, "added-files-size") + number(summary, "removed-files-size");
    text.append("\",").append(bytes).append(",").append(isOnLine).append("]");
  }

  private static long number(Map summary, String key) {
    Object value = summary == null ? null : summary.get(key);
    return value == null ? 0 : Long.parseLong(value.toString());
  }

  /** How many tasks a set has. */
  public int size(String name) {
    return tasks(name).size();
  }

  /** How many rows the files of a set have, deleted ones included. */
  public long rows(String name) {
    long rows = 0;
    for (Iterator each = tasks(name).iterator(); each.hasNext();) {
      rows += ((FileScanTask) each.next()).file().recordCount();
    }
    return rows;
  }

  /** Say whether every row of a set has a row id (version 3; not in files from before an upgrade). */
  public boolean hasLineage(String name) {
    for (Iterator each = tasks(name).iterator(); each.hasNext();) {
      if (((FileScanTask) each.next()).file().firstRowId() == null) {
        return false;
      }
    }
    return true;
  }

  /** Give a set as a DataFrame of the table's columns as they are now, with the reader's metadata columns. */
  public Dataset read(String name, SparkSession spark) {
    ScanTaskSetManager.get().stageTasks(table, id + name, tasks(name));
    scala.Option none = scala.Option.empty();
    return Dataset.ofRows(spark, DataSourceV2Relation.create(new Staged(table, id + name), none, none));
  }

  /** Forget what was staged; DataFrames of it can no longer be read. */
  public void close() {
    for (Iterator each = sets.keySet().iterator(); each.hasNext();) {
      ScanTaskSetManager.get().removeTasks(table, id + each.next());
    }
  }
}

/** Reads staged tasks. Its columns are the table's alone, so that row ids and `_deleted` are metadata columns. */
class Staged extends SparkRewriteTable {
  private final StructType columns;

  Staged(Table table, String group) {
    super(table, group);
    this.columns = SparkSchemaUtil.convert(table.schema());
  }

  public StructType schema() {
    return columns;
  }

  public Column[] columns() {
    return CatalogV2Util.structTypeToV2Columns(columns);
  }
}
