import java.lang.ref.SoftReference;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.LinkedList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutorService;
import java.util.function.Function;
import org.apache.iceberg.AppendFiles;
import org.apache.iceberg.BaseTransaction;
import org.apache.iceberg.ContentFile;
import org.apache.iceberg.ContentFileParser;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileContent;
import org.apache.iceberg.HasTableOperations;
import org.apache.iceberg.HistoryEntry;
import org.apache.iceberg.ManageSnapshots;
import org.apache.iceberg.ManifestFile;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.PartitionSpecParser;
import org.apache.iceberg.RewriteFiles;
import org.apache.iceberg.RowDelta;
import org.apache.iceberg.SchemaParser;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SnapshotRef;
import org.apache.iceberg.SnapshotSummary;
import org.apache.iceberg.SnapshotUpdate;
import org.apache.iceberg.SortOrderParser;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableProperties;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.CleanableFailure;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.relocated.com.google.common.util.concurrent.MoreExecutors;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.JsonNode;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.node.DoubleNode;
import org.apache.iceberg.util.JsonUtil;
import org.apache.iceberg.util.SnapshotUtil;

/**
 * One attempt to commit to a table: a look at its metadata, updates of a transaction, and one compare-and-swap of that very
 * metadata. It decides nothing, and puts what would be a hundred calls through py4j into four.
 */
public class Attempt {
  /** Of less files Iceberg makes one manifest; of more it makes several in parallel. */
  private static final int FEW_FILES = 10000;
  /** Of less manifests nobody wants to know the size of their list, which costs a request. */
  private static final int MANY_MANIFESTS = 100;
  private static final ExecutorService THIS_THREAD = MoreExecutors.newDirectExecutorService();

  /** How long a loaded table may begin an attempt, which looks at it again, but not at the access that it came with. */
  private static final long KEPT_MILLIS = 60000;

  /** What `load` has loaded, until an attempt takes it: by identifier, the oldest first. */
  private final LinkedHashMap kept = new LinkedHashMap();

  private Function steady;
  private Catalog catalog;
  private String identifier;
  private Table table;
  private boolean isKept;
  private BaseTransaction transaction;
  private TableMetadata start;

  /** The locations of data files that were written for this attempt. */
  private final Set own = new HashSet();

  /** Return an attempt to commit to a table. `steady` makes a table one that accepts commits whatever the clock says. */
  public Attempt begin(Function steady, Catalog catalog, String identifier) {
    Attempt attempt = new Attempt();
    attempt.steady = steady;
    attempt.catalog = catalog;
    attempt.identifier = identifier;
    Table found = take(identifier);
    attempt.isKept = found != null;
    if (found == null) {
      attempt.load();
    } else {
      attempt.table = (Table) steady.apply(found);
    }
    return attempt;
  }

  private void load() {
    table = (Table) steady.apply(catalog.loadTable(TableIdentifier.parse(identifier)));
  }

  /** Load a table and describe it, as JSON. */
  public String load(Catalog catalog, String identifier) throws Exception {
    Table found = catalog.loadTable(TableIdentifier.parse(identifier));
    keep(identifier, found);
    return describe(found);
  }

  private synchronized void keep(String identifier, Table found) {
    kept.remove(identifier); // so that it is the last one
    kept.put(identifier, new Object[] {new SoftReference(found), Long.valueOf(System.nanoTime() / 1000000)});
    forgetOld();
  }

  private synchronized Table take(String identifier) {
    forgetOld();
    Object[] found = (Object[]) kept.remove(identifier);
    return found == null ? null : (Table) ((SoftReference) found[0]).get();
  }

  private void forgetOld() {
    long now = System.nanoTime() / 1000000;
    Iterator all = kept.values().iterator();
    while (all.hasNext() && now - ((Long) ((Object[]) all.next())[1]).longValue() > KEPT_MILLIS) {
      all.remove();
    }
  }

  public Table table() {
    return table;
  }

  /** Look at the table: all that follows builds on what it is now. Returns JSON. */
  public String look(String branch, String key) throws Exception {
    try {
      transaction = (BaseTransaction) table.newTransaction(); // refreshes
    } catch (RuntimeException error) {
      if (!isKept) {
        throw error;
      }
      load(); // another table may have its name by now
      transaction = (BaseTransaction) table.newTransaction();
    }
    start = transaction.startMetadata();
    SnapshotRef ref = start.ref(branch);
    Map found = new LinkedHashMap();
    found.put("uuid", start.uuid());
    found.put("mark", start.properties().get(key));
    found.put("has_branch", Boolean.valueOf(ref != null));
    found.put("is_tag", Boolean.valueOf(ref != null && ref.isTag()));
    found.put("is_empty", Boolean.valueOf(start.currentSnapshot() == null));
    found.put("specs", specs(start));
    found.put("location", start.location());
    found.put("properties", start.properties());
    found.put("old_metadata", oldMetadata(start));
    return JsonUtil.mapper().writeValueAsString(found);
  }

  /** The metadata files outside of a table's location that its commits would delete. */
  private static List oldMetadata(TableMetadata metadata) {
    List found = new ArrayList();
    if (metadata.propertyAsBoolean("write.metadata.delete-after-commit.enabled", false)) {
      for (Iterator each = metadata.previousFiles().iterator(); each.hasNext();) {
        String file = ((TableMetadata.MetadataLogEntry) each.next()).file();
        if (!file.startsWith(metadata.location() + "/") || file.contains("/../")) {
          found.add(file);
        }
      }
    }
    return found;
  }

  public BaseTransaction transaction() {
    return transaction;
  }

  public TableMetadata start() {
    return start;
  }

  /** Add a snapshot with these data files to the transaction. */
  public void append(String branch, String files, String summary) throws Exception {
    AppendFiles update = hasFewManifests(branch) ? transaction.newFastAppend() : transaction.newAppend();
    Map specs = transaction.table().specs();
    JsonNode all = JsonUtil.mapper().readTree(files);
    for (Iterator nodes = all.elements(); nodes.hasNext();) {
      update.appendFile((DataFile) read((JsonNode) nodes.next(), specs));
    }
    stayIfFew(update, all.size());
    finish(update, branch, summary);
  }

  /**
   * Whether the branch has so few manifests that Iceberg would merge none of them. Then both kinds of append give the
   * same, but the one that may merge reads the manifest list again that it has just written.
   */
  private boolean hasFewManifests(String branch) {
    TableMetadata current = transaction.currentMetadata();
    Snapshot parent = SnapshotUtil.latestSnapshot(current, branch);
    if (parent == null) {
      return true;
    }
    int most = current.propertyAsInt(
        TableProperties.MANIFEST_MIN_MERGE_COUNT, TableProperties.MANIFEST_MIN_MERGE_COUNT_DEFAULT);
    Map summary = parent.summary() == null ? Collections.emptyMap() : parent.summary(); // old tables may have none
    try {
      int kept = Integer.parseInt((String) summary.get(SnapshotSummary.KEPT_MANIFESTS_COUNT));
      int created = Integer.parseInt((String) summary.get(SnapshotSummary.CREATED_MANIFESTS_COUNT));
      return kept + created + 1 < most;
    } catch (NumberFormatException error) {
      return false; // its writer does not say
    }
  }

  /** Add a snapshot with these data files and delete files to the transaction. */
  public void change(String branch, String files, String summary) throws Exception {
    RowDelta update = transaction.newRowDelta();
    Map specs = transaction.table().specs();
    JsonNode all = JsonUtil.mapper().readTree(files);
    for (Iterator nodes = all.elements(); nodes.hasNext();) {
      ContentFile file = read((JsonNode) nodes.next(), specs);
      if (file instanceof DeleteFile) {
        update.addDeletes((DeleteFile) file);
      } else {
        update.addRows((DataFile) file);
      }
    }
    stayIfFew(update, all.size());
    finish(update, branch, summary);
  }

  /**
   * Add a snapshot with these data files, and with delete files of positions that were written for this attempt. Those in
   * `removed` are in them.
   */
  public void change(String branch, String files, List added, List removed, String summary) throws Exception {
    RowDelta update = transaction.newRowDelta();
    Snapshot parent = SnapshotUtil.latestSnapshot(transaction.currentMetadata(), branch);
    if (parent != null) {
      update.validateFromSnapshot(parent.snapshotId()); // else each older vector counts as another writer's
    }
    Map specs = transaction.table().specs();
    JsonNode all = JsonUtil.mapper().readTree(files);
    for (Iterator nodes = all.elements(); nodes.hasNext();) {
      update.addRows((DataFile) read((JsonNode) nodes.next(), specs));
    }
    for (Iterator each = added.iterator(); each.hasNext();) {
      update.addDeletes((DeleteFile) each.next());
    }
    for (Iterator each = removed.iterator(); each.hasNext();) {
      update.removeDeletes((DeleteFile) each.next());
    }
    stayIfFew(update, all.size() + added.size());
    finish(update, branch, summary);
  }

  /**
   * Add a snapshot that replaces files by others with the same rows: the data files `gone` by `files`, which get the
   * sequence number `sequence`, and the delete files `removed` by `added`.
   */
  public void replace(
      String branch, String files, List gone, long sequence, List added, List removed, String summary)
      throws Exception {
    RewriteFiles update = transaction.newRewrite();
    update.validateFromSnapshot(SnapshotUtil.latestSnapshot(transaction.currentMetadata(), branch).snapshotId());
    Map specs = transaction.table().specs();
    JsonNode all = JsonUtil.mapper().readTree(files);
    if (all.size() > 0) {
      update.dataSequenceNumber(sequence);
    }
    for (Iterator nodes = all.elements(); nodes.hasNext();) {
      update.addFile((DataFile) read((JsonNode) nodes.next(), specs));
    }
    List old = gone == null ? Collections.emptyList() : gone;
    for (Iterator each = old.iterator(); each.hasNext();) {
      update.deleteFile((DataFile) each.next());
    }
    for (Iterator each = added.iterator(); each.hasNext();) {
      update.addFile((DeleteFile) each.next());
    }
    for (Iterator each = removed.iterator(); each.hasNext();) {
      update.deleteFile((DeleteFile) each.next());
    }
    stayIfFew(update, all.size() + old.size() + added.size() + removed.size());
    finish(update, branch, summary);
  }

  /** Add a snapshot without any row to the transaction. */
  public void clear(String branch, String summary) throws Exception {
    finish(transaction.newDelete().deleteFromRowFilter(Expressions.alwaysTrue()), branch, summary);
  }

  /**
   * The snapshots that a branch has and `main` lacks, the oldest first, as JSON; and where they begin: `base` is the last
   * snapshot that both have.
   */
  public String waiting(String branch) throws Exception {
    TableMetadata current = transaction.currentMetadata();
    Set published = new HashSet();
    Snapshot main = current.currentSnapshot();
    for (Snapshot older = main; older != null; older = parent(current, older)) {
      published.add(Long.valueOf(older.snapshotId()));
    }
    Set wasMain = new HashSet();
    for (Iterator entries = current.snapshotLog().iterator(); entries.hasNext();) {
      wasMain.add(Long.valueOf(((HistoryEntry) entries.next()).snapshotId()));
    }
    LinkedList line = new LinkedList();
    SnapshotRef ref = current.ref(branch);
    Snapshot snapshot = ref == null ? null : current.snapshot(ref.snapshotId());
    boolean isCut = false;
    boolean isSetBack = false;
    while (snapshot != null && !published.contains(Long.valueOf(snapshot.snapshotId()))) {
      Map summary = snapshot.summary() == null ? Collections.emptyMap() : snapshot.summary();
      isSetBack = isSetBack || wasMain.contains(Long.valueOf(snapshot.snapshotId()));
      line.addFirst(new Object[] {Long.valueOf(snapshot.snapshotId()), snapshot.operation(), summary});
      isCut = snapshot.parentId() != null && parent(current, snapshot) == null;
      snapshot = parent(current, snapshot);
    }
    Map waiting = new LinkedHashMap();
    waiting.put("main", main == null ? null : Long.valueOf(main.snapshotId()));
    waiting.put("base", snapshot == null ? null : Long.valueOf(snapshot.snapshotId()));
    waiting.put("has_branch", Boolean.valueOf(ref != null));
    waiting.put("is_cut", Boolean.valueOf(isCut));
    waiting.put("is_set_back", Boolean.valueOf(isSetBack));
    waiting.put("line", line);
    return JsonUtil.mapper().writeValueAsString(waiting);
  }

  private static Snapshot parent(TableMetadata current, Snapshot snapshot) {
    return snapshot.parentId() == null ? null : current.snapshot(snapshot.parentId().longValue());
  }

  /** Let a branch point to a snapshot; a missing branch is created. */
  public void point(String branch, long snapshot) {
    ManageSnapshots update = transaction.manageSnapshots();
    if (transaction.currentMetadata().ref(branch) == null) {
      update.createBranch(branch, snapshot);
    } else {
      update.replaceBranch(branch, snapshot);
    }
    update.commit();
  }

  public void removeBranch(String branch) {
    transaction.manageSnapshots().removeBranch(branch).commit();
  }

  /** Data files, from JSON. */
  public List files(String files) throws Exception {
    Map specs = transaction.table().specs();
    List found = new ArrayList();
    for (Iterator nodes = JsonUtil.mapper().readTree(files).elements(); nodes.hasNext();) {
      found.add(read((JsonNode) nodes.next(), specs));
    }
    return found;
  }

  /** Note data files that were written for this attempt, as JSON: a refused one removes them. */
  public void own(String paths) throws Exception {
    for (Iterator nodes = JsonUtil.mapper().readTree(paths).elements(); nodes.hasNext();) {
      own.add(((JsonNode) nodes.next()).textValue());
    }
  }

  private void finish(SnapshotUpdate update, String branch, String summary) throws Exception {
    if (!branch.equals("main")) {
      update.toBranch(branch);
    }
    JsonNode told = JsonUtil.mapper().readTree(summary);
    for (Iterator names = told.fieldNames(); names.hasNext();) {
      String name = (String) names.next();
      update.set(name, told.get(name).textValue());
    }
    update.commit();
  }

  /** Let this thread write the manifest of few files: for its pool Iceberg waits in steps of 10 ms. */
  private static void stayIfFew(SnapshotUpdate update, int files) {
    if (files < FEW_FILES) {
      update.scanManifestsWith(THIS_THREAD);
      update.writeManifestsWith(THIS_THREAD, 1);
    }
  }

  private static ContentFile read(JsonNode file, Map specs) {
    readNumbers((ArrayNode) file.get("partition"));
    return ContentFileParser.fromJson(file, specs);
  }

  private static void readNumbers(ArrayNode partition) {
    for (int i = 0; i < partition.size(); i++) {
      JsonNode value = (JsonNode) partition.get(i);
      if (value.isArray()) {
        partition.set(i, new DoubleNode(Double.parseDouble(((JsonNode) value.get(0)).textValue())));
      }
    }
  }

  /**
   * Replace what was looked at by what the transaction made of it, with one more property if `key` is not null. An
   * attempt that is refused leaves nothing behind. Returns the branch's snapshot and the table as JSON.
   */
  public String swap(String branch, String key, String value) throws Exception {
    TableMetadata made = transaction.currentMetadata();
    if (key != null) {
      made = TableMetadata.buildFrom(made).setProperties(Collections.singletonMap(key, value)).build();
    }
    try {
      ((HasTableOperations) table).operations().commit(start, made);
    } catch (RuntimeException error) {
      if (error instanceof CleanableFailure) {
        removeMade(made);
      }
      throw error;
    }
    SnapshotRef ref = made.ref(branch);
    Snapshot snapshot = ref == null ? null : made.snapshot(ref.snapshotId());
    Map found = new LinkedHashMap();
    found.put("snapshot", snapshot == null ? null : Long.valueOf(snapshot.snapshotId()));
    found.put("summary", snapshot == null ? Collections.emptyMap() : snapshot.summary());
    found.put("table", described(made, table.io()));
    putHistory(found, made);
    found.put("listBytes", Long.valueOf(snapshot == null ? 0 : listBytes(snapshot)));
    return JsonUtil.mapper().writeValueAsString(found);
  }

  /** The size of a list of many manifests, in one request; 0: of few, or it cannot be asked for. */
  private long listBytes(Snapshot snapshot) {
    try {
      Map totals = snapshot.summary();
      if (number(totals, "manifests-kept") + number(totals, "manifests-created") < MANY_MANIFESTS) {
        return 0;
      }
      return table.io().newInputFile(snapshot.manifestListLocation()).getLength();
    } catch (RuntimeException error) {
      return 0; // the commit is done, whatever is known of it
    }
  }

  private static long number(Map totals, String name) {
    Object value = totals.get(name);
    return value == null ? 0 : Long.parseLong((String) value);
  }

  /** Put how many snapshots there are, and when files were last rewritten. */
  private static void putHistory(Map found, TableMetadata made) {
    long replaced = 0;
    for (Iterator each = made.snapshots().iterator(); each.hasNext();) {
      Snapshot snapshot = (Snapshot) each.next();
      if ("replace".equals(snapshot.operation())) {
        replaced = Math.max(replaced, snapshot.timestampMillis());
      }
    }
    found.put("snapshots", Integer.valueOf(made.snapshots().size()));
    found.put("replaced", Long.valueOf(replaced));
  }

  /** Remove the files of an attempt that does not end in a swap. */
  public void discard() {
    removeMade(transaction.currentMetadata());
  }

  private void removeMade(TableMetadata made) {
    for (Iterator each = made.snapshots().iterator(); each.hasNext();) {
      Snapshot snapshot = (Snapshot) each.next();
      if (start.snapshot(snapshot.snapshotId()) == null) {
        try {
          removeMade(snapshot, table.io(), own);
        } catch (RuntimeException error) {
          continue; // what cannot be deleted is left for the removal of orphans
        }
      }
    }
  }

  /**
   * Delete what a refused attempt wrote: only after a definite no, and only what its own snapshot brought. Staged files
   * stay, for the next attempt.
   */
  private static void removeMade(Snapshot snapshot, FileIO io, Set own) {
    Set locations = new HashSet(own);
    if (snapshot.summary().get("spark.app.id") != null) { // a MERGE of ours, which wrote its files for this attempt
      addLocations(snapshot.addedDataFiles(io), locations);
    }
    addLocations(positions(snapshot.addedDeleteFiles(io)), locations); // never staged; one Puffin file has many vectors
    for (Iterator each = locations.iterator(); each.hasNext();) {
      io.deleteFile((String) each.next());
    }
    for (Iterator each = snapshot.allManifests(io).iterator(); each.hasNext();) {
      ManifestFile manifest = (ManifestFile) each.next();
      if (manifest.snapshotId() != null && manifest.snapshotId().longValue() == snapshot.snapshotId()) {
        io.deleteFile(manifest.path());
      }
    }
    io.deleteFile(snapshot.manifestListLocation());
  }

  private static List positions(Iterable files) {
    List found = new ArrayList();
    for (Iterator each = files.iterator(); each.hasNext();) {
      DeleteFile file = (DeleteFile) each.next();
      if (file.content() == FileContent.POSITION_DELETES) {
        found.add(file);
      }
    }
    return found;
  }

  private static void addLocations(Iterable files, Set locations) {
    for (Iterator each = files.iterator(); each.hasNext();) {
      locations.add(((ContentFile) each.next()).location());
    }
  }

  /** Describe a table as it was last loaded, as JSON. */
  public String describe(Table other) throws Exception {
    TableMetadata metadata = ((HasTableOperations) other).operations().current();
    return JsonUtil.mapper().writeValueAsString(described(metadata, other.io()));
  }

  private static Map described(TableMetadata metadata, FileIO io) {
    Map found = new LinkedHashMap();
    found.put("uuid", metadata.uuid());
    found.put("location", metadata.location());
    found.put("schema", SchemaParser.toJson(metadata.schema()));
    found.put("spec", PartitionSpecParser.toJson(metadata.spec()));
    found.put("order", SortOrderParser.toJson(metadata.sortOrder()));
    found.put("version", Integer.valueOf(metadata.formatVersion()));
    found.put("properties", metadata.properties());
    found.put("io", io.properties());
    found.put("specs", specs(metadata));
    found.put("file", metadata.metadataFileLocation());
    return found;
  }

  /** The ids of the partition specs, and of each whether it has no partitions. */
  private static List specs(TableMetadata metadata) {
    List found = new ArrayList();
    for (Iterator each = metadata.specs().iterator(); each.hasNext();) {
      PartitionSpec spec = (PartitionSpec) each.next();
      List one = new ArrayList();
      one.add(Integer.valueOf(spec.specId()));
      one.add(Boolean.valueOf(spec.isUnpartitioned()));
      found.add(one);
    }
    return found;
  }
}
