import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.ExpireSnapshots;
import org.apache.iceberg.ManifestFile;
import org.apache.iceberg.ManifestFiles;
import org.apache.iceberg.ManifestReader;
import org.apache.iceberg.PartitionField;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SnapshotRef;
import org.apache.iceberg.StructLike;
import org.apache.iceberg.Table;
import org.apache.iceberg.expressions.Expression;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.expressions.UnboundTerm;
import org.apache.iceberg.io.CloseableIterator;
import org.apache.iceberg.util.JsonUtil;

/**
 * What one branch of a table consists of: its files by partition, and its snapshots. A manifest never changes, so each
 * is read once; a later look reads only new ones.
 */
public class Files {
  private Map manifests = new HashMap(); // its path -> partition key -> long[]
  private Map partitions = new HashMap(); // key -> Object[] {spec id, StructLike}
  private List bounds = new ArrayList(); // ascending sizes, which divide files into tiers

  /** Count the data files of a snapshot by partition and tier, as JSON; forget what was read with other bounds. */
  public String look(Table table, Snapshot snapshot, List bounds) throws Exception {
    if (!this.bounds.equals(bounds)) {
      manifests = new HashMap();
    }
    this.bounds = new ArrayList(bounds);
    Map current = new HashMap();
    Map sums = new LinkedHashMap();
    for (Iterator each = snapshot.dataManifests(table.io()).iterator(); each.hasNext();) {
      ManifestFile manifest = (ManifestFile) each.next();
      Map found = (Map) manifests.get(manifest.path());
      if (found == null) {
        found = read(table, manifest);
      }
      current.put(manifest.path(), found);
      for (Iterator entries = found.entrySet().iterator(); entries.hasNext();) {
        Map.Entry entry = (Map.Entry) entries.next();
        add(sums, (String) entry.getKey(), (long[]) entry.getValue());
      }
    }
    manifests = current;
    partitions.keySet().retainAll(sums.keySet());
    Map answer = new LinkedHashMap();
    answer.put("manifests", Integer.valueOf(current.size()));
    answer.put("partitions", described(table, sums));
    return JsonUtil.mapper().writeValueAsString(answer);
  }

  private Map read(Table table, ManifestFile manifest) throws Exception {
    Map found = new HashMap();
    ManifestReader reader = ManifestFiles.read(manifest, table.io(), table.specs());
    reader.select(Arrays.asList(new Object[] {"file_path", "file_size_in_bytes", "partition", "record_count"}));
    String prefix = manifest.partitionSpecId() + ":";
    PartitionSpec spec = (PartitionSpec) table.specs().get(Integer.valueOf(manifest.partitionSpecId()));
    CloseableIterator files = reader.iterator();
    while (files.hasNext()) {
      DataFile file = (DataFile) files.next();
      String key = prefix + spec.partitionToPath(file.partition());
      if (!partitions.containsKey(key)) {
        StructLike values = ((DataFile) file.copyWithoutStats()).partition();
        partitions.put(key, new Object[] {Integer.valueOf(spec.specId()), values});
      }
      long[] one = new long[2 * bounds.size() + 3];
      int tier = 0;
      while (tier < bounds.size() && file.fileSizeInBytes() >= ((Number) bounds.get(tier)).longValue()) {
        tier++;
      }
      one[tier] = 1;
      one[bounds.size() + 1 + tier] = file.fileSizeInBytes();
      one[one.length - 1] = file.dataSequenceNumber() == null ? 0 : file.dataSequenceNumber().longValue();
      add(found, key, one);
    }
    files.close();
    reader.close();
    return found;
  }

  private static void add(Map sums, String key, long[] more) {
    long[] sum = (long[]) sums.get(key);
    if (sum == null) {
      sums.put(key, more.clone());
      return;
    }
    int last = sum.length - 1;
    for (int i = 0; i < last; i++) {
      sum[i] += more[i];
    }
    sum[last] = Math.max(sum[last], more[last]);
  }

  /** Of each partition: key, path, files and bytes by tier, and when its newest rows were committed, in ms; 0: unknown. */
  private List described(Table table, Map sums) {
    Map times = new HashMap();
    for (Iterator each = table.snapshots().iterator(); each.hasNext();) {
      Snapshot snapshot = (Snapshot) each.next();
      times.put(Long.valueOf(snapshot.sequenceNumber()), Long.valueOf(snapshot.timestampMillis()));
    }
    List found = new ArrayList();
    for (Iterator each = sums.entrySet().iterator(); each.hasNext();) {
      Map.Entry entry = (Map.Entry) each.next();
      String key = (String) entry.getKey();
      long[] sum = (long[]) entry.getValue();
      Object time = times.get(Long.valueOf(sum[sum.length - 1]));
      int tiers = sum.length / 2;
      List one = new ArrayList();
      one.add(key);
      one.add(key.substring(key.indexOf(':') + 1));
      one.add(Arrays.copyOfRange(sum, 0, tiers));
      one.add(Arrays.copyOfRange(sum, tiers, 2 * tiers));
      one.add(time == null ? Long.valueOf(0) : time);
      found.add(one);
    }
    return found;
  }

  /** A condition that is true for the files of these partitions, for Iceberg's planning. */
  public Expression where(Table table, List keys) {
    Expression any = Expressions.alwaysFalse();
    for (Iterator each = keys.iterator(); each.hasNext();) {
      Object[] partition = (Object[]) partitions.get(each.next());
      if (partition != null) {
        PartitionSpec spec = (PartitionSpec) table.specs().get(partition[0]);
        any = Expressions.or(any, where(table, spec, (StructLike) partition[1]));
      }
    }
    return any;
  }

  private static Expression where(Table table, PartitionSpec spec, StructLike values) {
    Expression all = Expressions.alwaysTrue();
    Set identities = identities(table);
    for (int i = 0; i < spec.fields().size(); i++) {
      PartitionField field = (PartitionField) spec.fields().get(i);
      String column = table.schema().findColumnName(field.sourceId());
      UnboundTerm term = column == null ? null : term(column, field.transform().toString());
      boolean isSafe = field.transform().isIdentity() || !identities.contains(Integer.valueOf(field.sourceId()));
      if (term != null && isSafe) {
        all = Expressions.and(all, is(term, values.get(i, Object.class)));
      }
    }
    return all;
  }

  /**
   * The columns that are partition fields themselves, in any spec. Iceberg 1.12 compares a condition on a transform of such
   * a column with the column's own values, so it must not be given one.
   */
  private static Set identities(Table table) {
    Set found = new HashSet();
    for (Iterator specs = table.specs().values().iterator(); specs.hasNext();) {
      for (Iterator fields = ((PartitionSpec) specs.next()).fields().iterator(); fields.hasNext();) {
        PartitionField field = (PartitionField) fields.next();
        if (field.transform().isIdentity()) {
          found.add(Integer.valueOf(field.sourceId()));
        }
      }
    }
    return found;
  }

  private static UnboundTerm term(String column, String transform) {
    if (transform.equals("identity")) {
      return Expressions.ref(column);
    }
    if (transform.equals("year")) {
      return Expressions.year(column);
    }
    if (transform.equals("month")) {
      return Expressions.month(column);
    }
    if (transform.equals("day")) {
      return Expressions.day(column);
    }
    if (transform.equals("hour")) {
      return Expressions.hour(column);
    }
    if (transform.startsWith("bucket[")) {
      return Expressions.bucket(column, width(transform));
    }
    if (transform.startsWith("truncate[")) {
      return Expressions.truncate(column, width(transform));
    }
    return null; // void, or one that this version does not know: it excludes no file
  }

  private static int width(String transform) {
    return Integer.parseInt(transform.substring(transform.indexOf('[') + 1, transform.indexOf(']')));
  }

  private static Expression is(UnboundTerm term, Object value) {
    if (value == null) {
      return Expressions.isNull(term);
    }
    boolean isNaN = value instanceof Float && ((Float) value).isNaN() || value instanceof Double && ((Double) value).isNaN();
    return isNaN ? (Expression) Expressions.isNaN(term) : (Expression) Expressions.equal(term, value);
  }

  /** The snapshots of a branch, newest first, those of no branch, and what the references name; as JSON. */
  public String history(Table table, String branch) throws Exception {
    List line = new ArrayList();
    Map loose = new LinkedHashMap();
    for (Iterator each = table.snapshots().iterator(); each.hasNext();) {
      Snapshot snapshot = (Snapshot) each.next();
      loose.put(Long.valueOf(snapshot.snapshotId()), snapshot);
    }
    Map heads = new LinkedHashMap();
    for (Iterator each = table.refs().entrySet().iterator(); each.hasNext();) {
      Map.Entry entry = (Map.Entry) each.next();
      SnapshotRef ref = (SnapshotRef) entry.getValue();
      List head = new ArrayList();
      head.add(Long.valueOf(ref.snapshotId()));
      head.add(Boolean.valueOf(ref.isTag()));
      heads.put(entry.getKey(), head);
      Snapshot snapshot = table.snapshot(ref.snapshotId());
      while (snapshot != null) {
        if (entry.getKey().equals(branch)) {
          line.add(described(snapshot));
        }
        loose.remove(Long.valueOf(snapshot.snapshotId()));
        snapshot = snapshot.parentId() == null ? null : table.snapshot(snapshot.parentId().longValue());
      }
    }
    List others = new ArrayList();
    for (Iterator each = loose.values().iterator(); each.hasNext();) {
      others.add(described((Snapshot) each.next()));
    }
    Map found = new LinkedHashMap();
    found.put("line", line);
    found.put("others", others);
    found.put("heads", heads);
    found.put("properties", table.properties());
    return JsonUtil.mapper().writeValueAsString(found);
  }

  private static List described(Snapshot snapshot) {
    Object pipeline = snapshot.summary() == null ? null : snapshot.summary().get("calve.pipeline");
    List found = new ArrayList();
    found.add(Long.valueOf(snapshot.snapshotId()));
    found.add(Long.valueOf(snapshot.timestampMillis()));
    found.add(pipeline == null ? "" : pipeline);
    return found;
  }

  /**
   * Expire exactly these snapshots, and delete the files that only they use. For snapshots that are named Iceberg looks which
   * files are reachable; otherwise it deletes (1.12) a Puffin file with the first of its vectors that was replaced.
   */
  public void expire(Table table, List ids) {
    ExpireSnapshots expiry = table.expireSnapshots().expireOlderThan(0);
    for (Iterator each = ids.iterator(); each.hasNext();) {
      expiry.expireSnapshotId(((Number) each.next()).longValue());
    }
    expiry.commit();
  }
}
