import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.Json;
import java.io.Reader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;

/** Runs Debezium's engine until its consumer has so many loaded rows or changes, and prints how many of each kind. */
public class DebeziumCount implements DebeziumEngine.ChangeConsumer<ChangeEvent<String, String>> {
  private static final String OPERATION = "\"op\":\"";
  private static final String KINDS = "rcud";

  private final CountDownLatch reached = new CountDownLatch(1);
  private final long[] counts = new long[KINDS.length()];
  private final long expected;
  private long left;

  private DebeziumCount(long expected) {
    this.expected = expected;
    this.left = expected;
  }

  @Override
  public void handleBatch(
      List<ChangeEvent<String, String>> records,
      DebeziumEngine.RecordCommitter<ChangeEvent<String, String>> committer)
      throws InterruptedException {
    for (ChangeEvent<String, String> record : records) {
      count(record.value());
      committer.markProcessed(record);
    }
    committer.markBatchFinished();
    if (left <= 0 && reached.getCount() > 0) {
      System.out.printf("reached %d %d %d %d%n", counts[0], counts[1], counts[2], counts[3]);
      System.out.flush();
      reached.countDown();
    }
  }

  /** Count a record by its operation, which is near its end; other records, such as those of schemas, have none. */
  private void count(String value) {
    int at = value == null ? -1 : value.lastIndexOf(OPERATION);
    int kind = at < 0 ? -1 : KINDS.indexOf(value.charAt(at + OPERATION.length()));
    if (kind >= 0) {
      counts[kind]++;
      left--;
    }
  }

  public static void main(String[] arguments) throws Exception {
    Properties properties = new Properties();
    try (Reader reader = Files.newBufferedReader(Path.of(arguments[0]))) {
      properties.load(reader);
    }
    DebeziumCount counter = new DebeziumCount(Long.parseLong(arguments[1]));
    DebeziumEngine<ChangeEvent<String, String>> engine =
        DebeziumEngine.create(Json.class)
            .using(properties)
            .using((success, message, error) -> ended(counter, success, message, error))
            .notifying(counter)
            .build();
    Thread thread = new Thread(engine, "engine");
    thread.start();
    counter.reached.await();
    engine.close();
    thread.join();
    System.exit(0);
  }

  private static void ended(DebeziumCount counter, boolean success, String message, Throwable error) {
    if (counter.reached.getCount() > 0) {
      System.out.printf("failed: %b %s %s, %d of %d left%n", success, message, error, counter.left, counter.expected);
      System.out.flush();
      System.exit(1);
    }
  }
}
