import static io.opentelemetry.api.common.AttributeKey.*;

import io.opentelemetry.api.common.Attributes;
import io.opentelemetry.api.common.Value;
import io.opentelemetry.api.logs.Logger;
import io.opentelemetry.api.logs.Severity;
import io.opentelemetry.api.metrics.Meter;
import io.opentelemetry.api.trace.*;
import io.opentelemetry.context.Context;
import io.opentelemetry.sdk.OpenTelemetrySdk;
import io.opentelemetry.sdk.autoconfigure.AutoConfiguredOpenTelemetrySdk;
import io.opentelemetry.sdk.metrics.Aggregation;
import io.opentelemetry.sdk.metrics.InstrumentSelector;
import io.opentelemetry.sdk.metrics.View;
import io.opentelemetry.sdk.resources.Resource;
import io.opentelemetry.sdk.trace.IdGenerator;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;

/** An application with OpenTelemetry's SDK for Java that sends the records of numbered.py: `java Sdk.java grpc COUNT`. */
public class Sdk {
  static final String NAME = "shop.web", VERSION = "1.2", SCHEMA = "https://opentelemetry.io/schemas/1.37.0";
  static int current;

  public static void main(String[] arguments) {
    int count = Integer.parseInt(arguments[1]);
    String protocol = arguments[0].equals("grpc") ? "grpc" : "http/protobuf";
    Resource resource = Resource.create(Attributes.builder().put("service.name", "shop").put("host.cpus", 4)
        .put("flags", true, false).build());
    OpenTelemetrySdk sdk = AutoConfiguredOpenTelemetrySdk.builder()
        .addPropertiesSupplier(() -> Map.of("otel.exporter.otlp.protocol", protocol, "otel.metrics.exemplar.filter",
            "always_on", "otel.metric.export.interval", "3600000", "otel.blrp.max.queue.size", "" + (count + 1),
            "otel.bsp.max.queue.size", "" + (count + 1)))
        .disableShutdownHook()
        .addResourceCustomizer((own, config) -> resource)
        .addTracerProviderCustomizer((builder, config) -> builder.setIdGenerator(new NumberedIds()))
        .addMeterProviderCustomizer((builder, config) -> builder.registerView(
            InstrumentSelector.builder().setName("sizes").build(),
            View.builder().setAggregation(Aggregation.base2ExponentialBucketHistogram(160, 20))
                .setAttributeFilter(key -> !key.equals("http.route")).build()))
        .build().getOpenTelemetrySdk();
    writeSpans(sdk.getTracerProvider().tracerBuilder(NAME).setInstrumentationVersion(VERSION).setSchemaUrl(SCHEMA).build(),
        count);
    writeLogs(sdk.getSdkLoggerProvider().loggerBuilder(NAME).setInstrumentationVersion(VERSION).setSchemaUrl(SCHEMA)
        .build(), count);
    writePoints(sdk.getSdkMeterProvider().meterBuilder(NAME).setInstrumentationVersion(VERSION).setSchemaUrl(SCHEMA)
        .build(), count);
    if (!sdk.shutdown().join(10, TimeUnit.MINUTES).isSuccess()) {
      System.err.println("the SDK gave something up");
      System.exit(1);
    }
    System.exit(0);
  }

  static Attributes attributes(int n) {
    return Attributes.builder().put("n", n).put("text", "t" + n + " ü\n\0😀").put("empty", "").put("flag", n % 2 == 0)
        .put("double", n + 0.5).put("whole", 5.0).put("least", Long.MIN_VALUE).put("bytes", Value.of(bytesOf(n)))
        .put("texts", "a", "" + n).put("flags", true, false).put("numbers", n, Long.MAX_VALUE).put("doubles", 0.5, -2.25)
        .put(stringArrayKey("nothing"), List.of()).put("map", Value.of(new TreeMap<String, Value<?>>(Map.of(
            "a", Value.of(Value.of(1), Value.of("b")), "deep", Value.of(Map.of("x", Value.of(0.25))), "n", Value.of(n)))))
        .put("http.route", "/cart").build();
  }

  static Value<?> body(int n) {
    return switch (n % 7) {
      case 0 -> Value.of("text " + n);
      case 1 -> Value.of(n);
      case 2 -> Value.of(n + 0.25);
      case 3 -> Value.of(n % 2 == 0);
      case 4 -> Value.of(bytesOf(n));
      case 5 -> Value.of(Value.of("a"), Value.of(n));
      default -> Value.of(Map.of("n", Value.of(Value.of(n))));
    };
  }

  static byte[] bytesOf(int n) {
    return ByteBuffer.allocate(4).putInt(n).array();
  }

  static long timeOf(int n) {
    return 1_780_000_000_000_000_000L + n * 200_000_001L;
  }

  static String traceOf(int n) {
    return String.format("80%014x%016x", 0, n / 2 + 1);
  }

  static String spanOf(int n) {
    return String.format("8%015x", n + 1);
  }

  static Context in(String trace, String span) {
    return Context.root().with(Span.wrap(
        SpanContext.create(trace, span, TraceFlags.getSampled(), TraceState.getDefault())));
  }

  /** Gives the span of a number its ids. */
  static class NumberedIds implements IdGenerator {
    public String generateTraceId() {
      return traceOf(current);
    }

    public String generateSpanId() {
      return spanOf(current);
    }
  }

  static void writeSpans(Tracer tracer, int count) {
    SpanKind[] kinds = {SpanKind.INTERNAL, SpanKind.SERVER, SpanKind.CLIENT, SpanKind.PRODUCER, SpanKind.CONSUMER};
    for (int n = 0; n < count; n++) {
      current = n;
      boolean isChild = n % 2 == 1, hasParts = n % 8 == 1;
      SpanBuilder builder = tracer.spanBuilder("GET /" + n).setSpanKind(kinds[n % 5]).setAllAttributes(attributes(n))
          .setStartTimestamp(timeOf(n), TimeUnit.NANOSECONDS)
          .setParent(isChild ? in(traceOf(n), spanOf(n - 1)) : Context.root());
      if (hasParts) {
        builder.addLink(SpanContext.createFromRemoteParent(String.format("%032x", n + 7), String.format("%016x", n + 9),
            TraceFlags.getDefault(), TraceState.getDefault()), attributes(n));
      }
      Span span = builder.startSpan();
      if (hasParts) {
        span.addEvent("retry", attributes(n), timeOf(n) + 3, TimeUnit.NANOSECONDS);
      }
      if (isChild) {
        span.setStatus(StatusCode.ERROR, "too slow");
      }
      span.end(timeOf(n) + n, TimeUnit.NANOSECONDS);
    }
  }

  static void writeLogs(Logger logger, int count) {
    for (int n = 0; n < count; n++) {
      logger.logRecordBuilder().setTimestamp(timeOf(n), TimeUnit.NANOSECONDS)
          .setObservedTimestamp(timeOf(n) + 7, TimeUnit.NANOSECONDS).setContext(in(traceOf(n), spanOf(n)))
          .setSeverity(Severity.values()[n % 24 + 1]).setSeverityText("level " + (n % 24 + 1)).setEventName("checkout")
          .setBody(body(n)).setAllAttributes(attributes(n)).emit();
    }
  }

  static void writePoints(Meter meter, int count) {
    var orders = meter.counterBuilder("orders").setUnit("By").setDescription("the orders").build();
    var open = meter.upDownCounterBuilder("open").ofDoubles().setUnit("By").setDescription("the open").build();
    var load = meter.gaugeBuilder("load").setUnit("By").setDescription("the load").build();
    var times = meter.histogramBuilder("times").setUnit("By").setDescription("the times")
        .setExplicitBucketBoundariesAdvice(List.of(0.0, 10.0, 1000.0)).build();
    var sizes = meter.histogramBuilder("sizes").setUnit("By").setDescription("the sizes").build();
    for (int n = 0; n < count; n++) {
      Attributes own = attributes(n);
      Context context = in(traceOf(n), spanOf(n));
      switch (n % 5) {
        case 0 -> orders.add(n, own, context);
        case 1 -> open.add(n + 0.5, own, context);
        case 2 -> load.set(n + 0.5, own, context);
        case 3 -> times.record(n + 0.5, own, context);
        default -> sizes.record(n + 0.5, own, context);
      }
    }
  }
}
