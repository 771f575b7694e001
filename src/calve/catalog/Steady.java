import java.lang.reflect.Field;
import java.util.Iterator;
import java.util.function.Function;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.HasTableOperations;
import org.apache.iceberg.MetadataUpdate;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SnapshotParser;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableMetadataParser;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.encryption.EncryptionManager;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.io.LocationProvider;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.JsonNode;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.iceberg.util.JsonUtil;

/**
 * Commits to a table whose last commit is in the future of this machine's clock: one of the clocks was changed.
 *
 * Iceberg refuses metadata that is a minute older than the metadata before it, so nobody could commit until the clock
 * has come that far. Here updates build on metadata whose times are in the past. What is committed are their changes of
 * the real metadata, a millisecond after its last commit.
 */
public class Steady implements TableOperations, Function {
  private static final long TOLERANCE_MILLIS = 10000;

  private TableOperations operations;
  private TableMetadata real;
  private TableMetadata shown;

  /** Load a table; commits to it succeed whatever the clock says. */
  public Table load(Catalog catalog, String identifier) throws Exception {
    return (Table) apply(catalog.loadTable(TableIdentifier.parse(identifier)));
  }

  /** Return a loaded table as one to which commits succeed whatever the clock says. */
  public Object apply(Object loaded) {
    Table table = (Table) loaded;
    if (!isLate(table)) {
      return table;
    }
    Steady steady = new Steady();
    steady.operations = ((HasTableOperations) table).operations();
    return new BaseTable(steady, table.name());
  }

  /** Whether the clock is behind the last commit of a table, as it was loaded, so that Iceberg may refuse the next. */
  public boolean isLate(Table table) {
    TableMetadata metadata = ((HasTableOperations) table).operations().current();
    return metadata.lastUpdatedMillis() - System.currentTimeMillis() > TOLERANCE_MILLIS;
  }

  public synchronized TableMetadata current() {
    TableMetadata found = operations.current();
    if (found != real) {
      shown = earlier(found);
      real = found;
    }
    return shown;
  }

  public synchronized TableMetadata refresh() {
    operations.refresh();
    return current();
  }

  public synchronized void commit(TableMetadata base, TableMetadata made) {
    if (base != shown) {
      throw new CommitFailedException("Cannot commit: the table has changed");
    }
    operations.commit(real, later(made));
  }

  /** Return metadata with the same content, and no time that is later than the clock's. */
  private static TableMetadata earlier(TableMetadata metadata) {
    try {
      long now = System.currentTimeMillis();
      ObjectNode json = (ObjectNode) JsonUtil.mapper().readTree(TableMetadataParser.toJson(metadata));
      json.put("last-updated-ms", Math.min(metadata.lastUpdatedMillis(), now));
      limit(json.get("snapshot-log"), now);
      limit(json.get("metadata-log"), now);
      return TableMetadataParser.fromJson(metadata.metadataFileLocation(), json);
    } catch (Exception error) {
      throw new RuntimeException(error);
    }
  }

  private static void limit(JsonNode log, long now) {
    for (int i = 0; log != null && i < log.size(); i++) {
      ObjectNode entry = (ObjectNode) log.get(i);
      entry.put("timestamp-ms", Math.min(entry.get("timestamp-ms").asLong(), now));
    }
  }

  /** Return what the changes make of the real metadata, after its last commit. */
  private TableMetadata later(TableMetadata made) {
    try {
      long time = Math.max(real.lastUpdatedMillis() + 1, System.currentTimeMillis());
      TableMetadata.Builder builder = TableMetadata.buildFrom(real);
      Field updated = TableMetadata.Builder.class.getDeclaredField("lastUpdatedMillis"); // no method sets it
      updated.setAccessible(true);
      updated.set(builder, Long.valueOf(time));
      for (Iterator each = made.changes().iterator(); each.hasNext();) {
        MetadataUpdate change = (MetadataUpdate) each.next();
        if (change instanceof MetadataUpdate.AddSnapshot) {
          change = new MetadataUpdate.AddSnapshot(at(((MetadataUpdate.AddSnapshot) change).snapshot(), time));
        }
        change.applyTo(builder);
      }
      return builder.build();
    } catch (RuntimeException error) {
      throw error;
    } catch (Exception error) {
      throw new RuntimeException(error);
    }
  }

  private static Snapshot at(Snapshot snapshot, long time) throws Exception {
    ObjectNode json = (ObjectNode) JsonUtil.mapper().readTree(SnapshotParser.toJson(snapshot));
    json.put("timestamp-ms", time);
    return SnapshotParser.fromJson(json.toString());
  }

  public FileIO io() {
    return operations.io();
  }

  public EncryptionManager encryption() {
    return operations.encryption();
  }

  public String metadataFileLocation(String name) {
    return operations.metadataFileLocation(name);
  }

  public LocationProvider locationProvider() {
    return operations.locationProvider();
  }

  public TableOperations temp(TableMetadata uncommitted) {
    return operations.temp(uncommitted);
  }

  public long newSnapshotId() {
    return operations.newSnapshotId();
  }

  public boolean requireStrictCleanup() {
    return operations.requireStrictCleanup();
  }
}
