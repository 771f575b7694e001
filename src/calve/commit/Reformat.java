import java.time.DateTimeException;
import java.time.LocalDateTime;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.iceberg.ContentFileParser;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.FileFormat;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.StructLike;
import org.apache.iceberg.Table;
import org.apache.iceberg.data.GenericFileWriterFactory;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.encryption.EncryptedFiles;
import org.apache.iceberg.formats.FormatModelRegistry;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.io.DataWriter;
import org.apache.iceberg.types.Type;
import org.apache.iceberg.types.Types;
import org.apache.iceberg.util.JsonUtil;

/** Writes Parquet data files again, row by row, in another format: by Iceberg's own readers and writers. */
public class Reformat {
  private static final int THREADS = 4;
  private static final int FIRST_LOST_NANO = 1000000;

  /**
   * Write data files, each to its path (JSON), with properties of the writer (JSON); return the new ones as JSON, in this order. They have the current columns of the
   * table. After an error no file is written any more, and what there is of them belongs to nobody.
   */
  public String write(Table table, List files, String paths, String format, String properties) throws Exception {
    List newPaths = (List) JsonUtil.mapper().readValue(paths, List.class);
    ExecutorService pool = Executors.newFixedThreadPool(Math.min(THREADS, files.size()));
    List copies = new ArrayList();
    for (int i = 0; i < files.size(); i++) {
      Copy copy = new Copy();
      copy.table = table;
      copy.file = (DataFile) files.get(i);
      copy.path = (String) newPaths.get(i);
      copy.format = FileFormat.fromString(format);
      copy.properties = (Map) JsonUtil.mapper().readValue(properties, Map.class);
      copies.add(pool.submit(copy));
    }
    pool.shutdown();
    StringBuilder written = new StringBuilder("[");
    try {
      for (Iterator each = copies.iterator(); each.hasNext();) {
        written.append(written.length() > 1 ? "," : "").append((String) ((Future) each.next()).get());
      }
    } catch (ExecutionException error) {
      pool.shutdownNow();
      pool.awaitTermination(Long.MAX_VALUE, TimeUnit.NANOSECONDS);
      throw (Exception) error.getCause();
    }
    return written.append("]").toString();
  }

  private static class Copy implements Callable {
    private Table table;
    private DataFile file;
    private String path;
    private FileFormat format;
    private Map properties;

    public Object call() throws Exception {
      PartitionSpec spec = (PartitionSpec) table.specs().get(Integer.valueOf(file.specId()));
      GenericFileWriterFactory.Builder factory = new GenericFileWriterFactory.Builder(table);
      factory.dataFileFormat(format).dataSchema(table.schema()).writerProperties(properties);
      DataWriter writer = factory.build().newDataWriter(
          EncryptedFiles.plainAsEncryptedOutput(table.io().newOutputFile(path)), spec, file.partition());
      try {
        write(writer);
      } finally {
        writer.close();
      }
      return ContentFileParser.toJson(writer.toDataFile(), spec);
    }

    private void write(DataWriter writer) throws Exception {
      CloseableIterable rows = FormatModelRegistry.readBuilder(
          FileFormat.PARQUET, Record.class, table.io().newInputFile(file.location())).project(table.schema()).build();
      try {
        for (Iterator each = rows.iterator(); each.hasNext();) {
          Object row = each.next();
          if (format == FileFormat.ORC) {
            check(table.schema().asStruct(), row, "");
          }
          writer.write(row);
        }
      } finally {
        rows.close();
      }
    }
  }

  /** Refuse what ORC's writer changes: times from 1 ms to 1 s before 1970 that have a fraction become times after 1970. */
  private static void check(Type type, Object value, String name) {
    if (value == null) {
      return;
    }
    if (type.isStructType()) {
      List fields = type.asStructType().fields();
      for (int i = 0; i < fields.size(); i++) {
        Types.NestedField field = (Types.NestedField) fields.get(i);
        check(field.type(), ((StructLike) value).get(i, Object.class), name.isEmpty() ? field.name() : name);
      }
    } else if (type.isListType()) {
      for (Iterator each = ((List) value).iterator(); each.hasNext();) {
        check(type.asListType().elementType(), each.next(), name);
      }
    } else if (type.isMapType()) {
      for (Iterator each = ((Map) value).entrySet().iterator(); each.hasNext();) {
        Map.Entry entry = (Map.Entry) each.next();
        check(type.asMapType().keyType(), entry.getKey(), name);
        check(type.asMapType().valueType(), entry.getValue(), name);
      }
    } else if (value instanceof OffsetDateTime) {
      check(((OffsetDateTime) value).toLocalDateTime(), name);
    } else if (value instanceof LocalDateTime) {
      check((LocalDateTime) value, name);
    }
  }

  private static void check(LocalDateTime time, String name) {
    if (time.toEpochSecond(ZoneOffset.UTC) == -1 && time.getNano() >= FIRST_LOST_NANO) {
      throw new DateTimeException(name + ": ORC files cannot hold the time " + time + ", Avro and Parquet can");
    }
  }
}
