// An application with OpenTelemetry's SDK for Go that sends the records of numbered.py: sdk grpc|http COUNT.
//
// Where to and how is in OTEL_EXPORTER_OTLP_ENDPOINT, …_COMPRESSION, …_CERTIFICATE and …_TIMEOUT. It fails when an
// exporter gives something up.
package main

import (
	"context"
	"log"
	"os"
	"strconv"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploggrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	otellog "go.opentelemetry.io/otel/log"
	"go.opentelemetry.io/otel/metric"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

const (
	name    = "shop.web"
	version = "1.2"
	schema  = "https://opentelemetry.io/schemas/1.37.0"
)

func main() {
	otel.SetErrorHandler(otel.ErrorHandlerFunc(check))
	count, err := strconv.Atoi(os.Args[2])
	check(err)
	ctx := context.Background()
	spans, logs, points := exporters(ctx, os.Args[1])
	own := resource.NewSchemaless(attribute.String("service.name", "shop"), attribute.Int("host.cpus", 4),
		attribute.BoolSlice("flags", []bool{true, false}))
	scope := []attribute.KeyValue{attribute.String("scope", "ü"), attribute.Float64("ratio", 0.5)}

	ids := &numberedIds{}
	tracers := sdktrace.NewTracerProvider(sdktrace.WithResource(own), sdktrace.WithIDGenerator(ids),
		sdktrace.WithBatcher(spans, sdktrace.WithBlocking(), sdktrace.WithExportTimeout(time.Minute)))
	tracer := tracers.Tracer(name, trace.WithInstrumentationVersion(version), trace.WithSchemaURL(schema),
		trace.WithInstrumentationAttributes(scope...))
	writeSpans(ctx, tracer, ids, count)
	check(tracers.Shutdown(ctx))

	queue := sdklog.NewBatchProcessor(logs, sdklog.WithMaxQueueSize(count+1), sdklog.WithExportTimeout(time.Minute))
	loggers := sdklog.NewLoggerProvider(sdklog.WithProcessor(queue), sdklog.WithResource(own))
	logger := loggers.Logger(name, otellog.WithInstrumentationVersion(version), otellog.WithSchemaURL(schema),
		otellog.WithInstrumentationAttributes(scope...))
	writeLogs(ctx, logger, count)
	check(loggers.Shutdown(ctx))

	sizes := sdkmetric.NewView(sdkmetric.Instrument{Name: "sizes"}, sdkmetric.Stream{
		Aggregation:     sdkmetric.AggregationBase2ExponentialHistogram{MaxSize: 160, MaxScale: 20},
		AttributeFilter: attribute.NewDenyKeysFilter("http.route"),
	})
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewPeriodicReader(points,
		sdkmetric.WithInterval(time.Hour), sdkmetric.WithTimeout(time.Minute))), sdkmetric.WithResource(own),
		sdkmetric.WithView(sizes), sdkmetric.WithCardinalityLimit(0))
	meter := meters.Meter(name, metric.WithInstrumentationVersion(version), metric.WithSchemaURL(schema),
		metric.WithInstrumentationAttributes(scope...))
	writePoints(ctx, meter, count)
	check(meters.Shutdown(ctx))
}

func exporters(ctx context.Context, protocol string) (*otlptrace.Exporter, sdklog.Exporter, sdkmetric.Exporter) {
	if protocol == "grpc" {
		spans, err := otlptracegrpc.New(ctx)
		check(err)
		logs, err := otlploggrpc.New(ctx)
		check(err)
		points, err := otlpmetricgrpc.New(ctx)
		check(err)
		return spans, logs, points
	}
	spans, err := otlptracehttp.New(ctx)
	check(err)
	logs, err := otlploghttp.New(ctx)
	check(err)
	points, err := otlpmetrichttp.New(ctx)
	check(err)
	return spans, logs, points
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
