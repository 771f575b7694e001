import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileContent;
import org.apache.iceberg.FileFormat;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.Table;
import org.apache.iceberg.actions.BinPackRewriteFilePlanner;
import org.apache.iceberg.actions.RewriteFileGroup;
import org.apache.iceberg.expressions.Expression;
import org.apache.iceberg.util.JsonUtil;

/** Iceberg's planning of one rewrite of data files whose rows are copied elsewhere. */
public class Joins {
  private static final int MOST_DELETES = 10000;
  private List tasks;
  private Map deletes;
  private int applied;

  /**
   * The files of each group, and into how many files they go, as JSON; null: not all are Parquet, one is encrypted, or
   * too many deletes apply. Of each file: its path, its bytes, its rows, its equality deletes, its sequence number, and the
   * id of its first row, or null.
   */
  public String plan(Table table, Expression where, long snapshot, Map options) throws Exception {
    BinPackRewriteFilePlanner planner = new BinPackRewriteFilePlanner(table, where, Long.valueOf(snapshot), true);
    planner.init(options);
    tasks = new ArrayList();
    deletes = new HashMap();
    applied = 0;
    List found = new ArrayList();
    for (Iterator each = planner.plan().groups().iterator(); each.hasNext();) {
      RewriteFileGroup group = (RewriteFileGroup) each.next();
      List files = new ArrayList();
      for (Iterator its = group.fileScanTasks().iterator(); its.hasNext();) {
        FileScanTask task = (FileScanTask) its.next();
        DataFile file = (DataFile) task.file();
        List keys = keys(task);
        if (keys == null || file.format() != FileFormat.PARQUET || file.keyMetadata() != null) {
          return null;
        }
        tasks.add(task);
        files.add(Arrays.asList(new Object[] {
            file.location(), Long.valueOf(file.fileSizeInBytes()), Long.valueOf(file.recordCount()), keys,
            file.dataSequenceNumber(), file.firstRowId()}));
      }
      found.add(Arrays.asList(new Object[] {files, Integer.valueOf(group.expectedOutputFiles())}));
    }
    return JsonUtil.mapper().writeValueAsString(found);
  }

  /** The scan tasks of all files that `plan` has found. */
  public List tasks() {
    return tasks;
  }

  /** The bytes of the equality deletes that `plan` has found. */
  public long deleteBytes() {
    long sum = 0;
    for (Iterator each = deletes.values().iterator(); each.hasNext();) {
      sum += ((Long) each.next()).longValue();
    }
    return sum;
  }

  /** The equality deletes that apply to a file; null if they are not Parquet, or too many. */
  private List keys(FileScanTask task) {
    List found = new ArrayList();
    for (Iterator each = task.deletes().iterator(); each.hasNext();) {
      DeleteFile file = (DeleteFile) each.next();
      if (file.content() == FileContent.EQUALITY_DELETES) {
        if (file.format() != FileFormat.PARQUET || ++applied > MOST_DELETES) {
          return null;
        }
        deletes.put(file.location(), Long.valueOf(file.fileSizeInBytes()));
        found.add(Arrays.asList(new Object[] {file.location(), file.equalityFieldIds()}));
      }
    }
    return found;
  }
}
