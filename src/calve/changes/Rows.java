import java.io.IOException;
import java.io.UncheckedIOException;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.function.BiFunction;
import java.util.function.Function;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileFormat;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.MetadataColumns;
import org.apache.iceberg.ScanTaskGroup;
import org.apache.iceberg.Schema;
import org.apache.iceberg.SerializableTable;
import org.apache.iceberg.StructLike;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableProperties;
import org.apache.iceberg.data.DeleteFilter;
import org.apache.iceberg.data.IdentityPartitionConverters;
import org.apache.iceberg.data.InternalRecordWrapper;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.data.parquet.GenericParquetReaders;
import org.apache.iceberg.deletes.DeleteCounter;
import org.apache.iceberg.encryption.EncryptingFileIO;
import org.apache.iceberg.formats.FormatModelRegistry;
import org.apache.iceberg.formats.ReadBuilder;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.io.CloseableIterator;
import org.apache.iceberg.io.InputFile;
import org.apache.iceberg.mapping.NameMapping;
import org.apache.iceberg.mapping.NameMappingParser;
import org.apache.iceberg.parquet.Parquet;
import org.apache.iceberg.shaded.org.apache.parquet.schema.LogicalTypeAnnotation.UnknownLogicalTypeAnnotation;
import org.apache.iceberg.shaded.org.apache.parquet.schema.MessageType;
import org.apache.iceberg.shaded.org.apache.parquet.schema.PrimitiveType;
import org.apache.iceberg.spark.SparkSchemaUtil;
import org.apache.iceberg.types.Type;
import org.apache.iceberg.types.Types;
import org.apache.iceberg.util.ByteBuffers;
import org.apache.iceberg.util.DateTimeUtil;
import org.apache.iceberg.util.PartitionUtil;
import org.apache.iceberg.util.TableScanUtil;
import org.apache.iceberg.variants.Variant;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.api.java.function.FlatMapFunction;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.unsafe.types.VariantVal;
import org.apache.spark.util.TaskCompletionListener;

/**
 * Reads the rows of scan tasks by Iceberg's generic reader, which knows every type, in Spark's tasks; deletes are applied.
 *
 * <p>Types that Spark lacks become text (times, nanoseconds: ISO 8601, as short as the value allows) or binary.
 */
public class Rows implements FlatMapFunction {
  private static final DateTimeFormatter TIME = DateTimeFormatter.ISO_LOCAL_TIME;
  private static final DateTimeFormatter TIMESTAMP = DateTimeFormatter.ISO_LOCAL_DATE_TIME;

  private final Table table;
  private final Schema columns;

  /** Of a table's columns, then `_row_id` and `_deleted`, if they are asked for; only with this deleted rows are read. */
  public Rows(Table table, Boolean hasRowIds, Boolean hasDeleted) {
    List fields = new ArrayList(table.schema().columns());
    if (hasRowIds.booleanValue()) {
      fields.add(MetadataColumns.ROW_ID);
    }
    if (hasDeleted.booleanValue()) {
      fields.add(MetadataColumns.IS_DELETED);
    }
    this.table = SerializableTable.copyOf(table);
    this.columns = new Schema(fields);
  }

  /** The rows of tasks; `types` are those of the table's columns in Spark, as JSON. */
  public Dataset read(SparkSession spark, List tasks, String types) {
    StructType row = (StructType) DataType.fromJson(types);
    for (int i = row.length(); i < columns.columns().size(); i++) {
      Types.NestedField field = (Types.NestedField) columns.columns().get(i);
      row = row.add(field.name(), SparkSchemaUtil.convert(field.type()));
    }
    List groups = groups(tasks);
    JavaRDD rows = JavaSparkContext.fromSparkContext(spark.sparkContext())
        .parallelize(groups, Math.max(1, groups.size()))
        .flatMap(this);
    return spark.internalCreateDataFrame(rows.rdd(), row, false);
  }

  /** Groups of tasks of about the size that Iceberg's readers divide files into. */
  private static List groups(List tasks) {
    List planned = TableScanUtil.planTaskGroups(
        tasks,
        TableProperties.SPLIT_SIZE_DEFAULT,
        TableProperties.SPLIT_LOOKBACK_DEFAULT,
        TableProperties.SPLIT_OPEN_FILE_COST_DEFAULT);
    List groups = new ArrayList();
    for (Iterator each = planned.iterator(); each.hasNext();) {
      groups.add(new ArrayList(((ScanTaskGroup) each.next()).tasks()));
    }
    return groups;
  }

  /** The rows of a group of tasks; in a task of Spark. */
  public Iterator call(Object group) {
    return new Reading(((List) group).iterator());
  }

  private CloseableIterable open(FileScanTask task) {
    EncryptingFileIO io = EncryptingFileIO.combine(table.io(), table.encryption());
    Deletes deletes = new Deletes(task, io);
    Schema schema = deletes.requiredSchema();
    InputFile file = io.newInputFile((DataFile) task.file());
    Map constants = PartitionUtil.constantsMap(task, new Constants());
    String mapping = (String) table.properties().get(TableProperties.DEFAULT_NAME_MAPPING);
    NameMapping names = mapping == null ? null : NameMappingParser.fromJson(mapping);
    if (task.file().format() != FileFormat.PARQUET) {
      ReadBuilder builder = FormatModelRegistry.readBuilder(task.file().format(), Record.class, file).project(schema);
      builder = names == null ? builder : builder.withNameMapping(names);
      return deletes.filter(builder.split(task.start(), task.length()).idToConstant(constants).build());
    }
    Parquet.ReadBuilder builder = Parquet.read(file).project(schema).split(task.start(), task.length());
    builder = names == null ? builder : builder.withNameMapping(names);
    return deletes.filter(builder.createReaderFunc((Function) new Readers(schema, constants)).build());
  }

  private static Object value(Type type, Object value) {
    if (value instanceof Record) {
      return row(type.asStructType(), (Record) value);
    } else if (value instanceof List) {
      return list(type.asListType().elementType(), (List) value);
    } else if (value instanceof Map) {
      return map(type.asMapType(), (Map) value);
    } else if (value instanceof CharSequence || value instanceof UUID) {
      return UTF8String.fromString(value.toString());
    } else if (value instanceof ByteBuffer) {
      return ByteBuffers.toByteArray((ByteBuffer) value);
    } else if (value instanceof BigDecimal) {
      Types.DecimalType kind = (Types.DecimalType) type;
      return Decimal.apply((BigDecimal) value, kind.precision(), kind.scale());
    } else if (value instanceof Variant) {
      return variant((Variant) value);
    }
    return temporal(type, value);
  }

  private static Object temporal(Type type, Object value) {
    boolean isNano = type.typeId() == Type.TypeID.TIMESTAMP_NANO;
    if (value instanceof LocalDate) {
      return Integer.valueOf(DateTimeUtil.daysFromDate((LocalDate) value));
    } else if (value instanceof LocalTime) {
      return UTF8String.fromString(TIME.format((LocalTime) value));
    } else if (value instanceof LocalDateTime) {
      LocalDateTime time = (LocalDateTime) value;
      return isNano ? (Object) text(time, "") : Long.valueOf(DateTimeUtil.microsFromTimestamp(time));
    } else if (value instanceof OffsetDateTime) {
      OffsetDateTime time = (OffsetDateTime) value;
      return isNano
          ? (Object) text(time.withOffsetSameInstant(ZoneOffset.UTC).toLocalDateTime(), "Z")
          : Long.valueOf(DateTimeUtil.microsFromTimestamptz(time));
    }
    return value;
  }

  private static UTF8String text(LocalDateTime time, String zone) {
    return UTF8String.fromString(TIMESTAMP.format(time) + zone);
  }

  private static GenericInternalRow row(Types.StructType type, Record record) {
    Object[] values = new Object[type.fields().size()];
    for (int i = 0; i < values.length; i++) {
      values[i] = value(((Types.NestedField) type.fields().get(i)).type(), record.get(i));
    }
    return new GenericInternalRow(values);
  }

  private static GenericArrayData list(Type type, Iterable values) {
    List converted = new ArrayList();
    for (Iterator each = values.iterator(); each.hasNext();) {
      converted.add(value(type, each.next()));
    }
    return new GenericArrayData(converted.toArray());
  }

  private static ArrayBasedMapData map(Types.MapType type, Map values) {
    List keys = new ArrayList();
    List items = new ArrayList();
    for (Iterator each = values.entrySet().iterator(); each.hasNext();) {
      Map.Entry entry = (Map.Entry) each.next();
      keys.add(entry.getKey());
      items.add(entry.getValue());
    }
    return new ArrayBasedMapData(list(type.keyType(), keys), list(type.valueType(), items));
  }

  private static VariantVal variant(Variant variant) {
    byte[] metadata = new byte[variant.metadata().sizeInBytes()];
    byte[] value = new byte[variant.value().sizeInBytes()];
    variant.metadata().writeTo(ByteBuffer.wrap(metadata).order(ByteOrder.LITTLE_ENDIAN), 0);
    variant.value().writeTo(ByteBuffer.wrap(value).order(ByteOrder.LITTLE_ENDIAN), 0);
    return new VariantVal(value, metadata);
  }

  /** The rows of tasks, one file after the other; what is open is closed when Spark's task ends, however it ends. */
  private class Reading implements Iterator, TaskCompletionListener {
    private final Iterator tasks;
    private CloseableIterable file;
    private CloseableIterator records;

    Reading(Iterator tasks) {
      this.tasks = tasks;
      TaskContext.get().addTaskCompletionListener((TaskCompletionListener) this);
    }

    public boolean hasNext() {
      while ((records == null || !records.hasNext()) && tasks.hasNext()) {
        close();
        file = open((FileScanTask) tasks.next());
        records = file.iterator();
      }
      return records != null && records.hasNext();
    }

    /** The next row, without what only deletes needed. */
    public Object next() {
      return row(columns.asStruct(), (Record) records.next());
    }

    public void onTaskCompletion(TaskContext context) {
      close();
    }

    private void close() {
      try {
        if (records != null) {
          records.close();
          file.close();
        }
      } catch (IOException error) {
        throw new UncheckedIOException(error);
      }
    }
  }

  /** The deletes of a task. Their columns may be gone from the table. */
  private class Deletes extends DeleteFilter {
    private final EncryptingFileIO io;
    private final InternalRecordWrapper wrapper;

    Deletes(FileScanTask task, EncryptingFileIO io) {
      super(task.file().location(), task.deletes(), new Fields(table), columns, new DeleteCounter(), true);
      this.io = io;
      this.wrapper = new InternalRecordWrapper(requiredSchema().asStruct());
    }

    protected StructLike asStructLike(Object record) {
      return wrapper.wrap((Record) record);
    }

    protected InputFile getInputFile(String location) {
      return io.newInputFile(location);
    }

    protected InputFile loadInputFile(DeleteFile file) {
      return io.newInputFile(file);
    }

    protected void markRowDeleted(Object record) {
      ((Record) record).set(columnIsDeletedPosition(), Boolean.TRUE);
    }
  }

  /** A column of the table by its id, also one that it had. */
  private static class Fields implements Function {
    private final Table table;

    Fields(Table table) {
      this.table = table;
    }

    public Object apply(Object id) {
      Types.NestedField field = table.schema().findField(((Integer) id).intValue());
      for (Iterator each = table.schemas().values().iterator(); field == null && each.hasNext();) {
        field = ((Schema) each.next()).findField(((Integer) id).intValue());
      }
      return field;
    }
  }

  /** The readers of a Parquet file. Iceberg's fail on the type of columns that are always null, so they do not see it. */
  private static class Readers implements Function {
    private final Schema schema;
    private final Map constants;

    Readers(Schema schema, Map constants) {
      this.schema = schema;
      this.constants = constants;
    }

    public Object apply(Object file) {
      MessageType message = (MessageType) file;
      return GenericParquetReaders.buildReader(
          schema, new MessageType(message.getName(), withoutUnknown(message.getFields())), constants);
    }

    private static List withoutUnknown(List fields) {
      List plain = new ArrayList();
      for (Iterator each = fields.iterator(); each.hasNext();) {
        org.apache.iceberg.shaded.org.apache.parquet.schema.Type field = (org.apache.iceberg.shaded.org.apache.parquet.schema.Type) each.next();
        if (!field.isPrimitive()) {
          plain.add(field.asGroupType().withNewFields(withoutUnknown(field.asGroupType().getFields())));
        } else if (field.getLogicalTypeAnnotation() instanceof UnknownLogicalTypeAnnotation) {
          PrimitiveType kind = new PrimitiveType(
              field.getRepetition(), field.asPrimitiveType().getPrimitiveTypeName(), field.getName());
          plain.add(field.getId() == null ? kind : kind.withId(field.getId().intValue()));
        } else {
          plain.add(field);
        }
      }
      return plain;
    }
  }

  /** The values of a file's partition, which its rows may lack. Iceberg 1.12 has no nanoseconds here. */
  private static class Constants implements BiFunction {
    public Object apply(Object type, Object value) {
      if (value != null && type instanceof Types.TimestampNanoType) {
        long nanos = ((Long) value).longValue();
        return ((Types.TimestampNanoType) type).shouldAdjustToUTC()
            ? (Object) DateTimeUtil.timestamptzFromNanos(nanos)
            : DateTimeUtil.timestampFromNanos(nanos);
      }
      return IdentityPartitionConverters.convertConstant((Type) type, value);
    }
  }
}
