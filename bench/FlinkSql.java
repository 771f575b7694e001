import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.table.api.TableResult;

/** Runs the statements of a file, one after another, in a Flink of this process; waits for each INSERT. */
public class FlinkSql {
  public static void main(String[] arguments) throws Exception {
    TableEnvironment tables = TableEnvironment.create(EnvironmentSettings.inStreamingMode());
    for (String statement : Files.readString(Path.of(arguments[0])).split(";\n")) {
      String text = statement.trim();
      if (text.startsWith("SET ")) {
        String[] pair = text.substring(4).split("=", 2);
        tables.getConfig().set(pair[0].trim(), pair[1].trim());
      } else if (!text.isEmpty()) {
        TableResult result = tables.executeSql(text);
        if (text.startsWith("INSERT")) {
          result.await();
        }
      }
    }
  }
}
