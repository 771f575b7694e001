import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ExecutorService;
import java.util.function.Function;
import java.util.function.LongConsumer;
import java.util.function.Supplier;
import org.apache.iceberg.BaseFileScanTask;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.BaseTransaction;
import org.apache.iceberg.ContentFile;
import org.apache.iceberg.ContentFileParser;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileContent;
import org.apache.iceberg.FileFormat;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.HasTableOperations;
import org.apache.iceberg.ManifestContent;
import org.apache.iceberg.ManifestFile;
import org.apache.iceberg.ManifestFiles;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableProperties;
import org.apache.iceberg.TableScan;
import org.apache.iceberg.data.BaseDeleteLoader;
import org.apache.iceberg.data.GenericFileWriterFactory;
import org.apache.iceberg.deletes.BaseDVFileWriter;
import org.apache.iceberg.deletes.DeleteGranularity;
import org.apache.iceberg.deletes.PositionDelete;
import org.apache.iceberg.deletes.PositionDeleteIndex;
import org.apache.iceberg.encryption.EncryptingFileIO;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.io.DeleteWriteResult;
import org.apache.iceberg.io.FanoutPositionOnlyDeleteWriter;
import org.apache.iceberg.io.IOUtil;
import org.apache.iceberg.io.InputFile;
import org.apache.iceberg.io.OutputFileFactory;
import org.apache.iceberg.io.SeekableInputStream;
import org.apache.iceberg.relocated.com.google.common.util.concurrent.MoreExecutors;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.JsonNode;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.node.DoubleNode;
import org.apache.iceberg.util.ContentFileUtil;
import org.apache.iceberg.util.JsonUtil;
import org.apache.iceberg.util.SnapshotUtil;
import org.apache.iceberg.util.StructLikeWrapper;

/**
 * Deletes rows by position within a transaction: lists the data files of a branch that may have rows of some keys, and
 * writes deletion vectors (format version 3) or position deletes (version 2). It searches nothing and commits nothing.
 */
public class Positions {
  private static final ExecutorService THIS_THREAD = MoreExecutors.newDirectExecutorService();
  private static final int VECTORS = 3;

  /** Of more positions their delete file is not written again, if it may stay. */
  private static final long MOST_CARRIED = 1000000;

  /** What the commits of this process have read of manifests. */
  private static final Manifests MANIFESTS = new Manifests();

  private BaseTable table;
  private int version;
  private Snapshot head;
  private Loader loader;
  private Map tasks;
  private Set live;
  private List added;
  private List removed;

  /**
   * The data files of a branch in the partitions of these equality deletes (JSON's null: in all), as JSON: of each its
   * path, its rows, and the lower and the upper bounds of the columns `ids` as hex, or null. JSON's null: one of them is
   * encrypted, or not Parquet.
   */
  public String plan(BaseTransaction transaction, String branch, String ids, String deletes) throws Exception {
    begin(transaction, branch);
    List files = new ArrayList();
    if (head != null) {
      Set partitions = partitions(deletes);
      List columns = numbers(ids);
      for (Iterator each = planned(columns).iterator(); each.hasNext();) {
        FileScanTask task = (FileScanTask) each.next();
        DataFile file = (DataFile) task.file();
        if (partitions == null || partitions.contains(partition(file))) {
          if (!isPlain(file)) {
            return "null";
          }
          tasks.put(file.location(), task);
          files.add(described(file, columns));
        }
      }
    }
    return JsonUtil.mapper().writeValueAsString(files);
  }

  /**
   * All data files of a branch, for an index of their keys, as JSON: the branch's snapshot or null, those of `snapshots`
   * that are it or its ancestors, and of each file its path, its rows, the names of the deletes by position that apply to
   * it, and how many rows they hide, or null if only reading them would tell. On version 2 these have no names and count
   * as none. JSON's null: a file is encrypted, or not Parquet.
   */
  public String planAll(BaseTransaction transaction, String branch, String snapshots) throws Exception {
    begin(transaction, branch);
    List files = new ArrayList();
    if (head != null) {
      for (Iterator each = planned(Collections.emptyList()).iterator(); each.hasNext();) {
        FileScanTask task = (FileScanTask) each.next();
        if (!isPlain(task.file())) {
          return "null";
        }
        tasks.put(task.file().location(), task);
        files.add(withDeletes(task));
      }
    }
    List line = new ArrayList();
    for (Iterator asked = JsonUtil.mapper().readTree(snapshots).elements(); asked.hasNext();) {
      long snapshot = ((JsonNode) asked.next()).longValue();
      if (isInLine(transaction.currentMetadata(), snapshot)) {
        line.add(Long.valueOf(snapshot));
      }
    }
    Object snapshot = head == null ? null : Long.valueOf(head.snapshotId());
    return JsonUtil.mapper().writeValueAsString(Arrays.asList(new Object[] {snapshot, line, files}));
  }

  private boolean isInLine(TableMetadata metadata, long asked) {
    Snapshot snapshot = head;
    while (snapshot != null && snapshot.snapshotId() != asked) {
      Long parent = snapshot.parentId();
      snapshot = parent == null ? null : metadata.snapshot(parent.longValue());
    }
    return snapshot != null;
  }

  private List withDeletes(FileScanTask task) {
    TreeSet names = new TreeSet();
    Long deleted = Long.valueOf(0);
    for (Iterator each = task.deletes().iterator(); version >= VECTORS && each.hasNext();) {
      DeleteFile file = (DeleteFile) each.next();
      if (file.content() == FileContent.POSITION_DELETES) {
        names.add(name(file));
        deleted = isVector(file) && names.size() == 1 ? Long.valueOf(file.recordCount()) : null;
      }
    }
    return Arrays.asList(new Object[] {
        task.file().location(), Long.valueOf(task.file().recordCount()), String.join(" ", names), deleted});
  }

  private static boolean isVector(DeleteFile file) {
    return file.format() == FileFormat.PUFFIN;
  }

  private static String name(DeleteFile file) {
    return isVector(file) ? file.location() + "#" + file.contentOffset() : file.location();
  }

  /**
   * What the branch has with the transaction's updates, as JSON: its snapshot, and of each vector that `write` has written
   * the data file, its name, and how many rows it hides.
   */
  public String staged(BaseTransaction transaction, String branch) throws Exception {
    List vectors = new ArrayList();
    for (Iterator each = added.iterator(); each.hasNext();) {
      DeleteFile file = (DeleteFile) each.next();
      if (isVector(file)) {
        vectors.add(Arrays.asList(
            new Object[] {file.referencedDataFile(), name(file), Long.valueOf(file.recordCount())}));
      }
    }
    Long snapshot = Long.valueOf(SnapshotUtil.latestSnapshot(transaction.currentMetadata(), branch).snapshotId());
    return JsonUtil.mapper().writeValueAsString(Arrays.asList(new Object[] {snapshot, vectors}));
  }

  /** The positions of a planned file that deletes by position hide, 8 bytes each. */
  public byte[] deleted(String path) {
    PositionDeleteIndex before = before((FileScanTask) tasks.get(path), path);
    if (before == null) {
      return new byte[0];
    }
    final ByteBuffer positions = ByteBuffer.allocate((int) before.cardinality() * 8).order(ByteOrder.LITTLE_ENDIAN);
    before.forEach(new LongConsumer() {
      public void accept(long position) {
        positions.putLong(position);
      }
    });
    return positions.array();
  }

  private void begin(BaseTransaction transaction, String branch) {
    table = new BaseTable(((HasTableOperations) transaction.table()).operations(), transaction.table().name());
    version = table.operations().current().formatVersion();
    head = SnapshotUtil.latestSnapshot(transaction.currentMetadata(), branch);
    loader = new Loader(new Opener(EncryptingFileIO.combine(table.io(), table.encryption())));
    tasks = new HashMap();
    live = new HashSet();
    added = new ArrayList();
    removed = new ArrayList();
  }

  /** Begin with files that are planned already; they are those of the branch's snapshot. */
  public void begin(BaseTransaction transaction, String branch, List planned) {
    begin(transaction, branch);
    for (Iterator each = planned.iterator(); each.hasNext();) {
      FileScanTask task = (FileScanTask) each.next();
      tasks.put(task.file().location(), task);
    }
  }

  /**
   * Find data files of an older snapshot again. False: the branch does not go on from there, or has not all of them. Then
   * `isLive` still knows the files that the branch has.
   */
  public boolean follow(BaseTransaction transaction, String branch, long snapshot, List paths) throws Exception {
    begin(transaction, branch);
    if (head == null) {
      return false;
    }
    Set wanted = new HashSet(paths);
    for (Iterator each = planned(Collections.emptyList()).iterator(); each.hasNext();) {
      FileScanTask task = (FileScanTask) each.next();
      live.add(task.file().location());
      if (wanted.contains(task.file().location())) {
        tasks.put(task.file().location(), task);
      }
    }
    return tasks.size() == wanted.size() && SnapshotUtil.isAncestorOf(table, head.snapshotId(), snapshot);
  }

  /** Whether the branch has a data file, after `follow`. */
  public boolean isLive(String path) {
    return live.contains(path);
  }

  /** The version of the table's format. */
  public int version() {
    return version;
  }

  /** The data files that were planned, or followed. */
  public List files() {
    List found = new ArrayList();
    for (Iterator each = tasks.values().iterator(); each.hasNext();) {
      found.add(((FileScanTask) each.next()).file());
    }
    return found;
  }

  /** The rows of a planned file that deletes by position hide, a bit for each. */
  public byte[] hidden(String path) {
    PositionDeleteIndex index = before((FileScanTask) tasks.get(path), path);
    Bits bits = new Bits();
    if (index != null) {
      index.forEach(bits);
    }
    return bits.rows.toByteArray();
  }

  /**
   * Those of some files that are planned, as JSON: of each its path, the id of its first row or null, and whether deletes by
   * position apply to it. JSON's null: equality deletes apply to one.
   */
  public String olderFiles(String paths) throws Exception {
    List files = new ArrayList();
    for (Iterator nodes = JsonUtil.mapper().readTree(paths).elements(); nodes.hasNext();) {
      FileScanTask task = (FileScanTask) tasks.get(((JsonNode) nodes.next()).textValue());
      if (task != null) {
        if (hasEqualityDeletes(task)) {
          return "null";
        }
        files.add(Arrays.asList(new Object[] {
            task.file().location(), task.file().firstRowId(), Boolean.valueOf(!task.deletes().isEmpty())}));
      }
    }
    return JsonUtil.mapper().writeValueAsString(files);
  }

  /** The equality deletes that apply to a planned file. */
  public List equalityDeletes(String path) {
    List found = new ArrayList();
    for (Iterator each = ((FileScanTask) tasks.get(path)).deletes().iterator(); each.hasNext();) {
      DeleteFile file = (DeleteFile) each.next();
      if (file.content() == FileContent.EQUALITY_DELETES) {
        found.add(file.location());
      }
    }
    return found;
  }

  private static boolean isPlain(ContentFile file) {
    return file.format() == FileFormat.PARQUET && file.keyMetadata() == null;
  }

  /**
   * All equality deletes of a branch, the columns of their keys, and the data files to which some of them apply, as JSON.
   * Of each delete: its path, its rows, its key's columns, its sequence number, and its partition's number, or null if it
   * applies to all. Of each data file: as `plan`, then its sequence number, and its partition's number. JSON's null: a
   * file is encrypted, or not Parquet.
   */
  public String planEqualityDeletes(BaseTransaction transaction, String branch) throws Exception {
    begin(transaction, branch);
    if (head != null) {
      addEqualityDeletes(removed);
    }
    Map partitions = new HashMap();
    List deletes = new ArrayList();
    TreeSet ids = new TreeSet();
    for (Iterator each = removed.iterator(); each.hasNext();) {
      DeleteFile file = (DeleteFile) each.next();
      if (!isPlain(file)) {
        return "null";
      }
      ids.addAll(file.equalityFieldIds());
      deletes.add(Arrays.asList(new Object[] {
          file.location(), Long.valueOf(file.recordCount()), file.equalityFieldIds(), file.dataSequenceNumber(),
          spec(file).isUnpartitioned() ? null : number(file, partitions)}));
    }
    List columns = new ArrayList(ids);
    List files = new ArrayList();
    if (!deletes.isEmpty() && !addFiles(files, columns, partitions)) {
      return "null";
    }
    return JsonUtil.mapper().writeValueAsString(Arrays.asList(new Object[] {deletes, columns, files}));
  }

  /** Add the data files to which equality deletes apply; false: one is encrypted, or not Parquet. */
  private boolean addFiles(List files, List columns, Map partitions) throws Exception {
    CloseableIterable planned = scan(columns).planFiles();
    try {
      for (Iterator each = planned.iterator(); each.hasNext();) {
        FileScanTask task = (FileScanTask) each.next();
        DataFile file = (DataFile) task.file();
        if (hasEqualityDeletes(task)) {
          if (!isPlain(file)) {
            return false;
          }
          tasks.put(file.location(), task);
          List found = described(file, columns);
          found.add(file.dataSequenceNumber());
          found.add(number(file, partitions));
          files.add(found);
        }
      }
    } finally {
      planned.close();
    }
    return true;
  }

  private void addEqualityDeletes(List found) throws Exception {
    for (Iterator manifests = head.deleteManifests(table.io()).iterator(); manifests.hasNext();) {
      CloseableIterable files =
          ManifestFiles.readDeleteManifest((ManifestFile) manifests.next(), table.io(), table.specs());
      for (Iterator each = files.iterator(); each.hasNext();) {
        DeleteFile file = (DeleteFile) each.next();
        if (file.content() == FileContent.EQUALITY_DELETES) {
          found.add(file.copy());
        }
      }
      files.close();
    }
  }

  /** The number of a file's partition: an equality delete applies to files of the same spec and values. */
  private Object number(ContentFile file, Map partitions) {
    Object key = specAndPartition(file);
    Object number = partitions.get(key);
    if (number == null) {
      number = Integer.valueOf(partitions.size());
      partitions.put(key, number);
    }
    return number;
  }

  private static boolean hasEqualityDeletes(FileScanTask task) {
    for (Iterator each = task.deletes().iterator(); each.hasNext();) {
      if (((DeleteFile) each.next()).content() == FileContent.EQUALITY_DELETES) {
        return true;
      }
    }
    return false;
  }

  /**
   * The data files of the branch, which keep the bounds of some columns, each with the deletes that apply to it: what a scan
   * plans, from the manifests that earlier plans have read, and new ones.
   */
  private List planned(List columns) throws Exception {
    List planned = new ArrayList();
    Deletes deletes = new Deletes();
    for (Iterator each = head.deleteManifests(table.io()).iterator(); each.hasNext();) {
      deletes.add(MANIFESTS.files(table, (ManifestFile) each.next(), Collections.emptyList()));
    }
    if (deletes.hasKeys) { // only a scan compares their bounds with those of data files
      CloseableIterable scanned = scan(columns).planFiles();
      for (Iterator each = scanned.iterator(); each.hasNext();) {
        planned.add(each.next());
      }
      scanned.close();
      return planned;
    }
    for (Iterator each = head.dataManifests(table.io()).iterator(); each.hasNext();) {
      for (Iterator files = MANIFESTS.files(table, (ManifestFile) each.next(), columns).iterator(); files.hasNext();) {
        DataFile file = (DataFile) files.next();
        planned.add(new BaseFileScanTask(file, deletes.of(file), null, null, null));
      }
    }
    return planned;
  }

  /** A scan of the branch that keeps the bounds of some columns. */
  private TableScan scan(List columns) {
    Schema schema = SnapshotUtil.schemaFor(table, head.snapshotId());
    List names = new ArrayList();
    for (Iterator each = columns.iterator(); each.hasNext();) {
      String name = schema.findColumnName(((Integer) each.next()).intValue());
      if (name != null) {
        names.add(name);
      }
    }
    TableScan scan = (TableScan) table.newScan().useSnapshot(head.snapshotId()).planWith(THIS_THREAD);
    return (TableScan) scan.includeColumnStats(names);
  }

  private Set partitions(String deletes) throws Exception {
    JsonNode files = JsonUtil.mapper().readTree(deletes);
    if (files.isNull()) {
      return null;
    }
    Set found = new HashSet();
    for (Iterator nodes = files.elements(); nodes.hasNext();) {
      found.add(partition(read((JsonNode) nodes.next())));
    }
    return found;
  }

  private Object partition(ContentFile file) {
    return StructLikeWrapper.forType(spec(file).partitionType()).set(file.partition());
  }

  /** A file's partition, for comparisons with those of other specs, too. */
  private List specAndPartition(ContentFile file) {
    return Arrays.asList(new Object[] {Integer.valueOf(file.specId()), partition(file)});
  }

  private PartitionSpec spec(ContentFile file) {
    return (PartitionSpec) table.specs().get(Integer.valueOf(file.specId()));
  }

  private static List described(DataFile file, List columns) {
    List lower = new ArrayList();
    List upper = new ArrayList();
    for (Iterator each = columns.iterator(); each.hasNext();) {
      Object column = each.next();
      lower.add(hex(file.lowerBounds(), column));
      upper.add(hex(file.upperBounds(), column));
    }
    List found = new ArrayList();
    found.add(file.location());
    found.add(Long.valueOf(file.recordCount()));
    found.add(lower);
    found.add(upper);
    return found;
  }

  private static String hex(Map bounds, Object column) {
    ByteBuffer bound = bounds == null ? null : (ByteBuffer) bounds.get(column);
    if (bound == null) {
      return null;
    }
    StringBuilder text = new StringBuilder();
    for (int at = bound.position(); at < bound.limit(); at++) {
      text.append(Character.forDigit((bound.get(at) >> 4) & 15, 16)).append(Character.forDigit(bound.get(at) & 15, 16));
    }
    return text.toString();
  }

  private static List numbers(String text) throws Exception {
    List found = new ArrayList();
    for (Iterator nodes = JsonUtil.mapper().readTree(text).elements(); nodes.hasNext();) {
      found.add(Integer.valueOf(((JsonNode) nodes.next()).intValue()));
    }
    return found;
  }

  /**
   * Write the deletes of rows, of planned files and of staged ones; return how many rows they hide that were not hidden
   * before. `paths` and `staged` are JSON; `counts` has 8 bytes for the number of positions of each path, and
   * `positions` 8 bytes for each position, one path's after another's.
   */
  public long write(String staged, String paths, byte[] counts, byte[] positions) throws Exception {
    Writer writer = writer();
    long written = write(writer, staged, paths, counts, positions);
    close(writer);
    return written;
  }

  /**
   * Write the deletes of rows of staged files that replace all followed ones: the arguments are those of `write`. Deletes of
   * followed files alone go, and position deletes of several files are joined into one.
   */
  public void move(String staged, String paths, byte[] counts, byte[] positions) throws Exception {
    List shared = retire(counts.length > 0);
    if (counts.length == 0 && shared.isEmpty()) {
      return;
    }
    Writer writer = writer();
    for (Iterator each = shared.iterator(); each.hasNext();) {
      carry((DeleteFile) each.next(), writer);
    }
    write(writer, staged, paths, counts, positions);
    close(writer);
  }

  /**
   * Remove the deletes of followed files; return those that other files share, the small ones, to be written again: one at
   * least if rows move, because Iceberg adds no delete file to a rewrite that removes none.
   */
  private List retire(boolean moves) {
    Map files = new LinkedHashMap();
    for (Iterator each = tasks.values().iterator(); each.hasNext();) {
      for (Iterator its = ((FileScanTask) each.next()).deletes().iterator(); its.hasNext();) {
        DeleteFile file = (DeleteFile) its.next();
        if (file.content() == FileContent.POSITION_DELETES) {
          files.put(file.location() + ":" + file.contentOffset(), file);
        }
      }
    }
    List shared = new ArrayList();
    for (Iterator each = files.values().iterator(); each.hasNext();) {
      DeleteFile file = (DeleteFile) each.next();
      if (ContentFileUtil.isFileScoped(file)) {
        removed.add(file);
      } else if (version < VECTORS) {
        shared.add(file);
      }
    }
    Collections.sort(shared, new ByRows());
    int many = 0;
    for (long rows = 0; many < shared.size(); many++) {
      rows += ((DeleteFile) shared.get(many)).recordCount();
      if (rows > MOST_CARRIED && (many > 0 || !moves)) {
        break;
      }
    }
    removed.addAll(shared.subList(0, many));
    return new ArrayList(shared.subList(0, many));
  }

  /** Write again what a delete file has about other files of the branch. */
  private void carry(DeleteFile file, Writer writer) throws Exception {
    loader.loadPositionDeletes(Collections.singletonList(file), "");
    PartitionSpec spec = spec(file);
    for (Iterator each = ((Map) loader.loaded.get(file.location())).entrySet().iterator(); each.hasNext();) {
      Map.Entry entry = (Map.Entry) each.next();
      String path = entry.getKey().toString();
      if (live.contains(path) && !tasks.containsKey(path)) {
        PositionDeleteIndex index = (PositionDeleteIndex) entry.getValue();
        Bits bits = new Bits();
        index.forEach(bits);
        for (int at = bits.rows.nextSetBit(0); at >= 0; at = bits.rows.nextSetBit(at + 1)) {
          writer.delete(path, file, spec, at, null);
        }
      }
    }
  }

  private Writer writer() {
    return version >= VECTORS ? (Writer) new Vectors(table) : (Writer) new PositionDeletes(table);
  }

  private void close(Writer writer) throws Exception {
    DeleteWriteResult result = writer.close();
    added = result.deleteFiles();
    removed.addAll(result.rewrittenDeleteFiles());
  }

  private long write(Writer writer, String staged, String paths, byte[] counts, byte[] positions) throws Exception {
    Map files = new HashMap();
    for (Iterator nodes = JsonUtil.mapper().readTree(staged).elements(); nodes.hasNext();) {
      ContentFile file = read((JsonNode) nodes.next());
      files.put(file.location(), file);
    }
    ByteBuffer many = ByteBuffer.wrap(counts).order(ByteOrder.LITTLE_ENDIAN);
    ByteBuffer each = ByteBuffer.wrap(positions).order(ByteOrder.LITTLE_ENDIAN);
    long written = 0;
    readVectors(paths);
    for (Iterator nodes = JsonUtil.mapper().readTree(paths).elements(); nodes.hasNext();) {
      String path = ((JsonNode) nodes.next()).textValue();
      FileScanTask task = (FileScanTask) tasks.get(path);
      ContentFile file = task == null ? (ContentFile) files.get(path) : (ContentFile) task.file();
      PositionDeleteIndex before = task == null ? null : before(task, path);
      for (long left = many.getLong(); left > 0; left--) {
        long position = each.getLong();
        if (before == null || !before.isDeleted(position)) {
          writer.delete(path, file, spec(file), position, before);
          written++;
        }
      }
    }
    return written;
  }

  /** Read the vectors of those of some files (JSON) that are planned; else each is read when it is needed. */
  public void readVectors(String paths) throws Exception {
    List vectors = new ArrayList();
    for (Iterator nodes = JsonUtil.mapper().readTree(paths).elements(); nodes.hasNext();) {
      FileScanTask task = (FileScanTask) tasks.get(((JsonNode) nodes.next()).textValue());
      for (Iterator each = task == null ? Collections.emptyIterator() : task.deletes().iterator(); each.hasNext();) {
        DeleteFile file = (DeleteFile) each.next();
        if (isVector(file)) {
          vectors.add(file);
        }
      }
    }
    loader.readVectors(vectors);
  }

  /** The rows of a file that deletes by position hide; null without such deletes. */
  private PositionDeleteIndex before(FileScanTask task, String path) {
    List deletes = new ArrayList();
    for (Iterator each = task.deletes().iterator(); each.hasNext();) {
      DeleteFile file = (DeleteFile) each.next();
      if (file.content() == FileContent.POSITION_DELETES) {
        deletes.add(file);
      }
    }
    return deletes.isEmpty() ? null : loader.loadPositionDeletes(deletes, path);
  }

  /** The delete files that `write` has written. */
  public List added() {
    return added;
  }

  /** The delete files that those of `write` replace, and all that `planEqualityDeletes` has listed. */
  public List removed() {
    return removed;
  }

  private ContentFile read(JsonNode file) {
    ArrayNode partition = (ArrayNode) file.get("partition");
    for (int i = 0; i < partition.size(); i++) {
      JsonNode value = (JsonNode) partition.get(i);
      if (value.isArray()) {
        partition.set(i, new DoubleNode(Double.parseDouble(((JsonNode) value.get(0)).textValue())));
      }
    }
    return ContentFileParser.fromJson(file, table.specs());
  }

  /** Deletes a row of a data file `path`, in the partition of `file`. */
  private interface Writer {
    void delete(String path, ContentFile file, PartitionSpec spec, long position, PositionDeleteIndex before) throws Exception;

    DeleteWriteResult close() throws Exception;
  }

  /** One vector for each data file, with the positions that the file's older deletes had. */
  private static class Vectors implements Writer {
    private final Known known = new Known();
    private final BaseDVFileWriter writer;

    Vectors(BaseTable table) {
      writer = new BaseDVFileWriter(files(table, FileFormat.PUFFIN), known);
    }

    public void delete(String path, ContentFile file, PartitionSpec spec, long position, PositionDeleteIndex before) {
      known.indexes.put(path, before);
      writer.delete(path, position, spec, file.partition());
    }

    public DeleteWriteResult close() throws Exception {
      writer.close();
      return writer.result();
    }
  }

  /** One file for each partition, unless the table says otherwise. */
  private static class PositionDeletes implements Writer {
    private final FanoutPositionOnlyDeleteWriter writer;
    private final PositionDelete row = PositionDelete.create();

    PositionDeletes(BaseTable table) {
      GenericFileWriterFactory factory =
          new GenericFileWriterFactory.Builder(table).deleteFileFormat(FileFormat.PARQUET).build();
      String granularity = (String) table.properties().get(TableProperties.DELETE_GRANULARITY);
      writer = new FanoutPositionOnlyDeleteWriter(
          factory,
          files(table, FileFormat.PARQUET),
          table.io(),
          Long.MAX_VALUE,
          granularity == null ? DeleteGranularity.PARTITION : DeleteGranularity.fromString(granularity));
    }

    public void delete(String path, ContentFile file, PartitionSpec spec, long position, PositionDeleteIndex before) {
      writer.write(row.set(path, position), spec, file.partition());
    }

    public DeleteWriteResult close() throws Exception {
      writer.close();
      return (DeleteWriteResult) writer.result();
    }
  }

  private static OutputFileFactory files(BaseTable table, FileFormat format) {
    return OutputFileFactory.builderFor(table, 0, System.nanoTime()).format(format).suffix("deletes").build();
  }

  /** Reads each delete file once: one has the rows of many data files, or their vectors. */
  private static class Loader extends BaseDeleteLoader {
    private final Function opener;
    private final Map loaded = new HashMap();
    private final Map vectors = new HashMap();

    Loader(Function opener) {
      super(opener, THIS_THREAD);
      this.opener = opener;
    }

    /** Read vectors, those of one Puffin file one after another. */
    void readVectors(List files) throws Exception {
      Collections.sort(files, new ByPlace());
      Method decode = // Janino calls no static method of an interface
          PositionDeleteIndex.class.getMethod("deserialize", new Class[] {byte[].class, DeleteFile.class});
      String location = null;
      SeekableInputStream stream = null;
      try {
        for (Iterator each = files.iterator(); each.hasNext();) {
          DeleteFile file = (DeleteFile) each.next();
          if (vectors.containsKey(name(file))) {
            continue;
          }
          if (!file.location().equals(location)) {
            if (stream != null) {
              stream.close();
            }
            location = file.location();
            stream = ((InputFile) opener.apply(file)).newStream();
          }
          byte[] bytes = new byte[file.contentSizeInBytes().intValue()];
          stream.seek(file.contentOffset().longValue());
          IOUtil.readFully(stream, bytes, 0, bytes.length);
          vectors.put(name(file), decode.invoke(null, new Object[] {bytes, file}));
        }
      } finally {
        if (stream != null) {
          stream.close();
        }
      }
    }

    public PositionDeleteIndex loadPositionDeletes(Iterable files, CharSequence path) {
      Object vector = vectors.get(name((DeleteFile) files.iterator().next()));
      return vector == null ? super.loadPositionDeletes(files, path) : (PositionDeleteIndex) vector;
    }

    protected boolean canCache(long size) {
      return true;
    }

    protected Object getOrLoad(String key, Supplier supplier, long size) {
      Object value = loaded.get(key);
      if (value == null) {
        value = supplier.get();
        loaded.put(key, value);
      }
      return value;
    }
  }

  /**
   * The live files of manifests, for later plans: a commit adds a few manifests to those that an earlier one has read, and a
   * manifest never changes. What its files inherit is in the list of manifests, so the same one may have several entries.
   */
  private static class Manifests {
    /** The most that is remembered; a manifest that alone would be the half of it is read each time. */
    private static final long MOST_BYTES = 64L << 20;

    /** About what a file takes without bounds, and what each bound takes besides its own bytes. */
    private static final long FILE_BYTES = 500;
    private static final long BOUND_BYTES = 250;

    private final LinkedHashMap known = new LinkedHashMap(16, 0.75f, true); // in the order of use
    private final Map sizes = new HashMap();
    private long bytes;

    /** The live files; data files keep the bounds of some columns. */
    List files(BaseTable table, ManifestFile manifest, List columns) throws Exception {
      PartitionSpec spec = (PartitionSpec) table.specs().get(Integer.valueOf(manifest.partitionSpecId()));
      Object name = Arrays.asList(new Object[] {
          manifest.path(), Long.valueOf(manifest.sequenceNumber()), manifest.firstRowId(), spec.partitionType(), columns});
      List found = find(name);
      if (found == null) {
        found = read(table, manifest, columns);
        keep(name, found, bytes(found));
      }
      return found;
    }

    private static List read(BaseTable table, ManifestFile manifest, List columns) throws Exception {
      List found = new ArrayList();
      Set kept = new HashSet(columns);
      boolean isData = manifest.content() == ManifestContent.DATA;
      CloseableIterable files = isData
          ? (CloseableIterable) ManifestFiles.read(manifest, table.io(), table.specs())
          : (CloseableIterable) ManifestFiles.readDeleteManifest(manifest, table.io(), table.specs());
      try {
        for (Iterator each = files.iterator(); each.hasNext();) {
          ContentFile file = (ContentFile) each.next();
          found.add(!isData ? file : kept.isEmpty() ? file.copyWithoutStats() : file.copyWithStats(kept));
        }
      } finally {
        files.close();
      }
      return found;
    }

    private synchronized List find(Object name) {
      return (List) known.get(name);
    }

    private synchronized void keep(Object name, List found, long size) {
      if (size > MOST_BYTES / 2 || known.containsKey(name)) {
        return;
      }
      known.put(name, found);
      sizes.put(name, Long.valueOf(size));
      bytes += size;
      for (Iterator oldest = known.keySet().iterator(); bytes > MOST_BYTES; oldest.remove()) {
        bytes -= ((Long) sizes.remove(oldest.next())).longValue();
      }
    }

    private static long bytes(List files) {
      long sum = 0;
      for (Iterator each = files.iterator(); each.hasNext();) {
        ContentFile file = (ContentFile) each.next();
        sum += FILE_BYTES + bytes(file.lowerBounds()) + bytes(file.upperBounds());
      }
      return sum;
    }

    private static long bytes(Map bounds) {
      long sum = 0;
      for (Iterator each = bounds == null ? Collections.emptyIterator() : bounds.values().iterator(); each.hasNext();) {
        sum += BOUND_BYTES + ((ByteBuffer) each.next()).remaining();
      }
      return sum;
    }
  }

  /** The deletes by position of a snapshot, by what they apply to (specification, "Scan Planning"). */
  private class Deletes {
    private final Map vectors = new HashMap();
    private final Map others = new HashMap();

    /** Whether there are equality deletes, too. */
    private boolean hasKeys;

    void add(List files) {
      for (Iterator each = files.iterator(); each.hasNext();) {
        DeleteFile file = (DeleteFile) each.next();
        if (isVector(file)) {
          vectors.put(file.referencedDataFile(), file);
          continue;
        }
        hasKeys |= file.content() == FileContent.EQUALITY_DELETES;
        String path = ContentFileUtil.referencedDataFileLocation(file);
        Object key = path == null ? (Object) specAndPartition(file) : path;
        List found = (List) others.get(key);
        if (found == null) {
          found = new ArrayList();
          others.put(key, found);
        }
        found.add(file);
      }
    }

    /** Those that apply to a data file: its vector, which has the positions of all others, else those that are not older. */
    DeleteFile[] of(DataFile file) {
      Object vector = vectors.get(file.location());
      if (vector != null) {
        return new DeleteFile[] {(DeleteFile) vector};
      }
      List found = new ArrayList();
      if (!others.isEmpty()) {
        addNewer((List) others.get(specAndPartition(file)), file, found);
        addNewer((List) others.get(file.location()), file, found);
      }
      return (DeleteFile[]) found.toArray(new DeleteFile[0]);
    }

    private void addNewer(List deletes, DataFile file, List found) {
      for (Iterator each = deletes == null ? Collections.emptyIterator() : deletes.iterator(); each.hasNext();) {
        DeleteFile delete = (DeleteFile) each.next();
        if (delete.dataSequenceNumber().longValue() >= file.dataSequenceNumber().longValue()) {
          found.add(delete);
        }
      }
    }
  }

  private static class ByPlace implements Comparator {
    public int compare(Object one, Object other) {
      DeleteFile file = (DeleteFile) one;
      DeleteFile next = (DeleteFile) other;
      int order = file.location().compareTo(next.location());
      return order == 0 ? file.contentOffset().compareTo(next.contentOffset()) : order;
    }
  }

  private static class ByRows implements Comparator {
    public int compare(Object one, Object other) {
      return Long.compare(((DeleteFile) one).recordCount(), ((DeleteFile) other).recordCount());
    }
  }

  private static class Bits implements LongConsumer {
    private final BitSet rows = new BitSet();

    public void accept(long row) {
      rows.set((int) row);
    }
  }

  private static class Opener implements Function {
    private final EncryptingFileIO io;

    Opener(EncryptingFileIO io) {
      this.io = io;
    }

    public Object apply(Object file) {
      return io.newInputFile((DeleteFile) file);
    }
  }

  private static class Known implements Function {
    private final Map indexes = new HashMap();

    public Object apply(Object path) {
      return indexes.get(path);
    }
  }
}
