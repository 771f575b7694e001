import org.apache.spark.api.java.function.VoidFunction2;

/**
 * The function that a stream calls with each of its batches (`foreachBatch`). It holds the batch until the pipeline lets it go; only
 * then Spark writes into its checkpoint that the batch is done. Python asks for it, so no port is open for callbacks.
 */
public class Handoff implements VoidFunction2 {
  private Object frame;
  private long epoch;

  public synchronized void call(Object frame, Object epoch) throws InterruptedException {
    this.frame = frame;
    this.epoch = ((Number) epoch).longValue();
    notifyAll();
    try {
      while (this.frame != null) {
        wait();
      }
    } finally {
      this.frame = null; // a stream that is stopped interrupts this thread
    }
  }

  /** Waits for a batch, but not for long; returns its number, or -1. */
  public synchronized long epoch(long millis) throws InterruptedException {
    if (frame == null && millis > 0) {
      wait(millis);
    }
    return frame == null ? -1 : epoch;
  }

  /** The rows of the batch that is held. */
  public synchronized Object frame() {
    return frame;
  }

  public synchronized void release() {
    frame = null;
    notifyAll();
  }
}
