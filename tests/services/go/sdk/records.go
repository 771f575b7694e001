package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	otellog "go.opentelemetry.io/otel/log"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

func attributes(n int) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.Int("n", n), attribute.String("text", fmt.Sprintf("t%d ü\n\x00😀", n)), attribute.String("empty", ""),
		attribute.Bool("flag", n%2 == 0), attribute.Float64("double", float64(n)+0.5), attribute.Float64("whole", 5),
		attribute.Int64("least", math.MinInt64), attribute.ByteSlice("bytes", bytesOf(n)),
		attribute.StringSlice("texts", []string{"a", strconv.Itoa(n)}), attribute.BoolSlice("flags", []bool{true, false}),
		attribute.Int64Slice("numbers", []int64{int64(n), math.MaxInt64}),
		attribute.Float64Slice("doubles", []float64{0.5, -2.25}), attribute.StringSlice("nothing", []string{}),
		attribute.Map("map", attribute.Slice("a", attribute.IntValue(1), attribute.StringValue("b")),
			attribute.Map("deep", attribute.Float64("x", 0.25)), attribute.Int("n", n)),
		attribute.String("http.route", "/cart"),
	}
}

func body(n int) attribute.Value {
	return []attribute.Value{
		attribute.StringValue(fmt.Sprintf("text %d", n)), attribute.IntValue(n), attribute.Float64Value(float64(n) + 0.25),
		attribute.BoolValue(n%2 == 0), attribute.ByteSliceValue(bytesOf(n)),
		attribute.SliceValue(attribute.StringValue("a"), attribute.IntValue(n)),
		attribute.MapValue(attribute.Slice("n", attribute.IntValue(n))),
	}[n%7]
}

func bytesOf(n int) []byte {
	return binary.BigEndian.AppendUint32(nil, uint32(n))
}

func timeOf(n int) time.Time {
	return time.Unix(1_780_000_000, int64(n)*200_000_001)
}

func traceOf(n int) (id trace.TraceID) {
	id[0] = 0x80
	binary.BigEndian.PutUint64(id[8:], uint64(n/2+1))
	return
}

func spanOf(n int) (id trace.SpanID) {
	binary.BigEndian.PutUint64(id[:], 1<<63+uint64(n+1))
	return
}

func in(ctx context.Context, of trace.TraceID, span trace.SpanID) context.Context {
	return trace.ContextWithSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: of, SpanID: span, TraceFlags: trace.FlagsSampled,
	}))
}

// numberedIds gives the span of a number its ids.
type numberedIds struct{ number int }

func (ids *numberedIds) NewIDs(context.Context) (trace.TraceID, trace.SpanID) {
	return traceOf(ids.number), spanOf(ids.number)
}

func (ids *numberedIds) NewSpanID(context.Context, trace.TraceID) trace.SpanID {
	return spanOf(ids.number)
}

func writeSpans(ctx context.Context, tracer trace.Tracer, ids *numberedIds, count int) {
	for n := range count {
		ids.number = n
		own, options, parent := trace.WithAttributes(attributes(n)...), []trace.SpanStartOption{}, ctx
		isChild, hasParts := n%2 == 1, n%8 == 1
		if isChild {
			parent = in(ctx, traceOf(n), spanOf(n-1))
		}
		if hasParts {
			var of trace.TraceID
			var span trace.SpanID
			binary.BigEndian.PutUint64(of[8:], uint64(n+7))
			binary.BigEndian.PutUint64(span[:], uint64(n+9))
			elsewhere := trace.NewSpanContext(trace.SpanContextConfig{TraceID: of, SpanID: span, Remote: true})
			options = append(options, trace.WithLinks(trace.Link{SpanContext: elsewhere, Attributes: attributes(n)}))
		}
		options = append(options, own, trace.WithTimestamp(timeOf(n)), trace.WithSpanKind(trace.SpanKind(n%5+1)))
		_, span := tracer.Start(parent, fmt.Sprintf("GET /%d", n), options...)
		if hasParts {
			span.AddEvent("retry", own, trace.WithTimestamp(timeOf(n).Add(3)))
		}
		if isChild {
			span.SetStatus(codes.Error, "too slow")
		}
		span.End(trace.WithTimestamp(timeOf(n).Add(time.Duration(n))))
	}
}

func writeLogs(ctx context.Context, logger otellog.Logger, count int) {
	for n := range count {
		var record otellog.Record
		record.SetTimestamp(timeOf(n))
		record.SetObservedTimestamp(timeOf(n).Add(7))
		record.SetSeverity(otellog.Severity(n%24 + 1))
		record.SetSeverityText(fmt.Sprintf("level %d", n%24+1))
		record.SetEventName("checkout")
		record.SetBody(body(n))
		record.AddAttributes(attributes(n)...)
		logger.Emit(in(ctx, traceOf(n), spanOf(n)), record)
	}
}

func writePoints(ctx context.Context, meter metric.Meter, count int) {
	by := metric.WithUnit("By")
	orders, err := meter.Int64Counter("orders", by, metric.WithDescription("the orders"))
	check(err)
	open, err := meter.Float64UpDownCounter("open", by, metric.WithDescription("the open"))
	check(err)
	load, err := meter.Float64Gauge("load", by, metric.WithDescription("the load"))
	check(err)
	times, err := meter.Float64Histogram("times", by, metric.WithDescription("the times"),
		metric.WithExplicitBucketBoundaries(0, 10, 1000))
	check(err)
	sizes, err := meter.Float64Histogram("sizes", by, metric.WithDescription("the sizes"))
	check(err)
	for n := range count {
		own, ctx := metric.WithAttributes(attributes(n)...), in(ctx, traceOf(n), spanOf(n))
		switch value := float64(n) + 0.5; n % 5 {
		case 0:
			orders.Add(ctx, int64(n), own)
		case 1:
			open.Add(ctx, value, own)
		case 2:
			load.Record(ctx, value, own)
		case 3:
			times.Record(ctx, value, own)
		case 4:
			sizes.Record(ctx, value, own)
		}
	}
}
