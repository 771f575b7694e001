import java.time.Instant;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DeleteFiles;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.PartitionField;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableScan;
import org.apache.iceberg.expressions.Expression;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.expressions.StrictMetricsEvaluator;
import org.apache.iceberg.io.CloseableIterator;
import org.apache.iceberg.types.Type;
import org.apache.iceberg.types.Types;

/** The data files of a branch whose rows are all older than a time; a file may go only if each of its rows may. */
public class OldFiles {
  /** The column by whose time the table is partitioned now; empty: there is none. */
  public static String column(Table table) {
    for (Iterator each = table.spec().fields().iterator(); each.hasNext();) {
      PartitionField field = (PartitionField) each.next();
      String transform = field.transform().toString();
      String column = table.schema().findColumnName(field.sourceId());
      if (column != null && !transform.equals("void") && hasTime(table, column) && !transform.startsWith("bucket[")) {
        return column;
      }
    }
    return "";
  }

  /** Whether a column has a date or a timestamp. */
  public static boolean hasTime(Table table, String column) {
    Types.NestedField field = table.schema().findField(column);
    return field != null && isTime(field.type().typeId());
  }

  private static boolean isTime(Type.TypeID id) {
    return id == Type.TypeID.DATE || id == Type.TypeID.TIMESTAMP || id == Type.TypeID.TIMESTAMP_NANO;
  }

  /** The files of a branch, at most so many, whose rows have all an earlier time: by their partition or their bounds. */
  public static List find(Table table, String branch, String column, long beforeMillis, int most) throws Exception {
    String time = literal(table.schema().findField(column).type(), beforeMillis);
    Expression old = Expressions.lessThan(column, time);
    StrictMetricsEvaluator bounds = new StrictMetricsEvaluator(table.schema(), old);
    TableScan scan = (TableScan) table.newScan().useRef(branch).filter(old);
    scan = (TableScan) scan.includeColumnStats(Arrays.asList(new Object[] {column}));
    List files = new ArrayList();
    CloseableIterator tasks = scan.planFiles().iterator();
    while (tasks.hasNext() && files.size() < most) {
      FileScanTask task = (FileScanTask) tasks.next();
      if (task.residual().op() == Expression.Operation.TRUE || bounds.eval(task.file())) {
        files.add(task.file());
      }
    }
    tasks.close();
    return files;
  }

  private static String literal(Type type, long millis) {
    String time = Instant.ofEpochMilli(millis).atOffset(ZoneOffset.UTC).toLocalDateTime().toString();
    if (type.typeId() == Type.TypeID.DATE) {
      return time.substring(0, time.indexOf('T'));
    }
    boolean isZoned = type.typeId() == Type.TypeID.TIMESTAMP
        ? ((Types.TimestampType) type).shouldAdjustToUTC()
        : ((Types.TimestampNanoType) type).shouldAdjustToUTC();
    return isZoned ? time + "+00:00" : time;
  }

  /** Delete files in one commit, and count their rows; it fails if one of them is gone: its rows are in another one. */
  public static long delete(Table table, String branch, List files) {
    DeleteFiles commit = (DeleteFiles) table.newDelete().validateFilesExist().toBranch(branch);
    long rows = 0;
    for (Iterator each = files.iterator(); each.hasNext();) {
      DataFile file = (DataFile) each.next();
      commit.deleteFile(file);
      rows += file.recordCount();
    }
    commit.commit();
    return rows;
  }
}
