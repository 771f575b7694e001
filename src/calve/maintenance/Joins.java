import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.iceberg.ContentFileParser;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileContent;
import org.apache.iceberg.FileFormat;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.Table;
import org.apache.iceberg.actions.BinPackRewriteFilePlanner;
import org.apache.iceberg.actions.RewriteDataFilesCommitManager;
import org.apache.iceberg.actions.RewriteFileGroup;
import org.apache.iceberg.expressions.Expression;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.JsonNode;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.node.DoubleNode;
import org.apache.iceberg.util.JsonUtil;

/** One rewrite of data files whose rows are copied elsewhere: Iceberg's planner, and the commit of Iceberg's action. */
public class Joins {
  private static final int MOST_DELETES = 10000;
  private Table table;
  private long snapshot;
  private List groups;
  private Map deletes;
  private int applied;

  /**
   * The files of each group, each with its equality deletes, and into how many files they go, as JSON; null: not all
   * are Parquet, there are deletes of another kind, or too many.
   */
  public String plan(Table table, Expression where, long snapshot, Map options) throws Exception {
    this.table = table;
    this.snapshot = snapshot;
    BinPackRewriteFilePlanner planner = new BinPackRewriteFilePlanner(table, where, Long.valueOf(snapshot), true);
    planner.init(options);
    groups = new ArrayList();
    deletes = new HashMap();
    applied = 0;
    List found = new ArrayList();
    for (Iterator each = planner.plan().groups().iterator(); each.hasNext();) {
      RewriteFileGroup group = (RewriteFileGroup) each.next();
      List files = new ArrayList();
      for (Iterator tasks = group.fileScanTasks().iterator(); tasks.hasNext();) {
        FileScanTask task = (FileScanTask) tasks.next();
        List keys = keys(task);
        if (keys == null || task.file().format() != FileFormat.PARQUET) {
          return null;
        }
        files.add(Arrays.asList(new Object[] {task.file().location(), keys}));
      }
      List one = new ArrayList();
      one.add(files);
      one.add(Long.valueOf(group.inputFilesSizeInBytes()));
      one.add(Integer.valueOf(group.expectedOutputFiles()));
      groups.add(group);
      found.add(one);
    }
    return JsonUtil.mapper().writeValueAsString(found);
  }

  /** The bytes of the equality deletes that `plan` has found. */
  public long deleteBytes() {
    long sum = 0;
    for (Iterator each = deletes.values().iterator(); each.hasNext();) {
      sum += ((Long) each.next()).longValue();
    }
    return sum;
  }

  private List keys(FileScanTask task) {
    List found = new ArrayList();
    for (Iterator each = task.deletes().iterator(); each.hasNext();) {
      DeleteFile file = (DeleteFile) each.next();
      boolean known = file.content() == FileContent.EQUALITY_DELETES && file.format() == FileFormat.PARQUET;
      if (!known || ++applied > MOST_DELETES) {
        return null;
      }
      deletes.put(file.location(), Long.valueOf(file.fileSizeInBytes()));
      found.add(Arrays.asList(new Object[] {file.location(), file.equalityFieldIds()}));
    }
    return found;
  }

  /** Commit the new files of each group; a failure deletes them, unless they may be committed. */
  public void commit(String files, String branch) throws Exception {
    Set done = new HashSet();
    Iterator outputs = JsonUtil.mapper().readTree(files).elements();
    for (Iterator each = groups.iterator(); each.hasNext();) {
      RewriteFileGroup group = (RewriteFileGroup) each.next();
      Set made = new HashSet();
      for (Iterator nodes = ((JsonNode) outputs.next()).elements(); nodes.hasNext();) {
        JsonNode file = (JsonNode) nodes.next();
        readNumbers((ArrayNode) file.get("partition"));
        made.add(ContentFileParser.fromJson(file, table.specs()));
      }
      group.setOutputFiles(made);
      done.add(group);
    }
    new RewriteDataFilesCommitManager(table, snapshot, true, new HashMap(), branch).commitOrClean(done);
  }

  private static void readNumbers(ArrayNode partition) {
    for (int i = 0; i < partition.size(); i++) {
      JsonNode value = (JsonNode) partition.get(i);
      if (value.isArray()) {
        partition.set(i, new DoubleNode(Double.parseDouble(((JsonNode) value.get(0)).textValue())));
      }
    }
  }
}
