import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.util.Date;
import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.data.Decimal;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.data.Time;
import org.apache.kafka.connect.data.Timestamp;
import org.apache.kafka.connect.errors.SchemaBuilderException;
import org.apache.kafka.connect.json.JsonConverter;

/**
 * Prints records as Kafka's JsonConverter writes them: name, type of the column, its value, record.
 *
 * java -Dstdout.encoding=UTF-8 -cp "<jars of org.apache.kafka:connect-json>/*" ConnectCorpus.java > connect_json.txt
 */
public class ConnectCorpus {
    private static final ObjectMapper MAPPER = new ObjectMapper().enable(DeserializationFeature.USE_BIG_DECIMAL_FOR_FLOATS);
    private static final JsonConverter CONVERTER = converter("BASE64");
    private static final JsonConverter NUMERIC = converter("NUMERIC");
    private static final Date MOMENT = new Date(1767225600123L);

    public static void main(String[] arguments) {
        kinds();
        logical();
        nested();
        debezium();
    }

    private static void kinds() {
        put("int8", Schema.INT8_SCHEMA, (byte) -7, "int", "-7");
        put("int16", Schema.INT16_SCHEMA, (short) 300, "int", "300");
        put("int32", Schema.INT32_SCHEMA, Integer.MIN_VALUE, "int", "-2147483648");
        put("int64", Schema.INT64_SCHEMA, Long.MAX_VALUE, "long", "9223372036854775807");
        put("float32", Schema.FLOAT32_SCHEMA, 1.5f, "float", "1.5");
        put("float64", Schema.FLOAT64_SCHEMA, 0.1, "double", "0.1");
        put("whole double", Schema.FLOAT64_SCHEMA, 3.0, "double", "3.0");
        put("not a number", Schema.FLOAT64_SCHEMA, Double.NaN, "double", "nan");
        put("infinite", Schema.FLOAT64_SCHEMA, Double.NEGATIVE_INFINITY, "double", "-inf");
        put("boolean", Schema.BOOLEAN_SCHEMA, true, "boolean", "True");
        put("string", Schema.STRING_SCHEMA, "é\uD83D\uDE00 \"\\\n2026-01-01", "string", "'é😀 \"\\\\\\n2026-01-01'");
        put("a number's text", Schema.STRING_SCHEMA, "007", "string", "'007'");
        put("bytes", Schema.BYTES_SCHEMA, new byte[] {0, -1, 65}, "binary", "b'\\x00\\xffA'");
        put("null", Schema.OPTIONAL_INT64_SCHEMA, null, "long", "None");
        put("default", SchemaBuilder.string().optional().defaultValue("none").build(), null, "string", "'none'");
    }

    private static void logical() {
        put("decimal", Decimal.schema(2), new BigDecimal("-1234567890123456789.50"), "decimal(38, 2)",
            "Decimal('-1234567890123456789.50')");
        put("negative scale", Decimal.schema(-2), new BigDecimal("12e2"), "decimal(38, 0)", "Decimal('1200')");
        put("precise", Decimal.builder(3).parameter("connect.decimal.precision", "9").build(), new BigDecimal("0.001"),
            "decimal(9, 3)", "Decimal('0.001')");
        put("numeric", NUMERIC, Decimal.schema(2), new BigDecimal("10.50"), "decimal(38, 2)", "Decimal('10.50')");
        put("date", org.apache.kafka.connect.data.Date.SCHEMA, new Date(20454L * 86_400_000), "date",
            "datetime.date(2026, 1, 1)");
        put("early", org.apache.kafka.connect.data.Date.SCHEMA, new Date(-86_400_000L), "date",
            "datetime.date(1969, 12, 31)");
        put("time", Time.SCHEMA, new Date(45_296_789L), "string", "'12:34:56.789'");
        put("timestamp", Timestamp.SCHEMA, MOMENT, "timestamptz", "2026-01-01 00:00:00.123000+00:00");
        put("before 1970", Timestamp.SCHEMA, new Date(-1), "timestamptz", "1969-12-31 23:59:59.999000+00:00");
        put("no timestamp", Timestamp.builder().optional().build(), null, "timestamptz", "None");
        put("default date", Timestamp.builder().optional().defaultValue(MOMENT).build(), null, "timestamptz",
            "2026-01-01 00:00:00.123000+00:00");
    }

    private static void nested() {
        Schema inner = SchemaBuilder.struct().field("at", Timestamp.SCHEMA).field("n", Decimal.schema(1)).build();
        Struct value = new Struct(inner).put("at", MOMENT).put("n", new BigDecimal("2.5"));
        String shown = "{'at': 2026-01-01 00:00:00.123000+00:00, 'n': Decimal('2.5')}";
        put("struct", inner, value, "struct<at: timestamptz, n: decimal(38, 1)>", shown);
        put("structs", SchemaBuilder.array(inner).build(), List.of(value),
            "list<struct<at: timestamptz, n: decimal(38, 1)>>", "[" + shown + "]");
        put("array", SchemaBuilder.array(Schema.INT32_SCHEMA).build(), List.of(1, 2), "list<int>", "[1, 2]");
        put("empty array", SchemaBuilder.array(Schema.STRING_SCHEMA).build(), List.of(), "list<string>", "[]");
        put("bytes in array", SchemaBuilder.array(Schema.BYTES_SCHEMA).build(), List.of(new byte[] {1}),
            "list<binary>", "[b'\\x01']");
        put("map", SchemaBuilder.map(Schema.STRING_SCHEMA, Decimal.schema(2)).build(),
            Map.of("a", new BigDecimal("1.25")), "map<string, decimal(38, 2)>", "[('a', Decimal('1.25'))]");
        put("map by int", SchemaBuilder.map(Schema.INT32_SCHEMA, Schema.STRING_SCHEMA).build(), Map.of(7, "x"),
            "map<int, string>", "[(7, 'x')]");
        put("map by date", SchemaBuilder.map(org.apache.kafka.connect.data.Date.SCHEMA, inner).build(),
            Map.of(new Date(0), value), "map<date, struct<at: timestamptz, n: decimal(38, 1)>>",
            "[(datetime.date(1970, 1, 1), " + shown + ")]");
        put("map by boolean", SchemaBuilder.map(Schema.BOOLEAN_SCHEMA, Schema.INT64_SCHEMA).build(), Map.of(true, 1L),
            "map<boolean, long>", "[(True, 1)]");
        put("empty map", SchemaBuilder.map(Schema.INT64_SCHEMA, Schema.INT64_SCHEMA).build(), Map.of(),
            "map<long, long>", "[]");
    }

    private static void debezium() {
        put("micros", SchemaBuilder.int64().name("io.debezium.time.MicroTimestamp").build(), 1529507596945104L,
            "timestamp", "2018-06-20 15:13:16.945104");
        put("zoned", SchemaBuilder.string().name("io.debezium.time.ZonedTimestamp").build(), "2018-06-20T13:37:03.5Z",
            "timestamptz", "2018-06-20 13:37:03.500000+00:00");
        put("uuid", SchemaBuilder.string().name("io.debezium.data.Uuid").build(),
            "0f8fad5b-d9cb-469f-a165-70867728950e", "uuid", "UUID('0f8fad5b-d9cb-469f-a165-70867728950e')");
        Schema free = SchemaBuilder.struct().name("io.debezium.data.VariableScaleDecimal")
            .field("scale", Schema.INT32_SCHEMA).field("value", Schema.BYTES_SCHEMA).build();
        put("free decimal", free, new Struct(free).put("scale", 3).put("value", new byte[] {4, -46}), "string",
            "'1.234'");
    }

    private static void put(String name, Schema schema, Object value, String type, String shown) {
        put(name, CONVERTER, schema, value, type, shown);
    }

    private static void put(
        String name, JsonConverter converter, Schema schema, Object value, String type, String shown) {
        Schema row = SchemaBuilder.struct().name("shop.Row").field("id", Schema.INT64_SCHEMA).field("v", schema).build();
        Struct struct = new Struct(row).put("id", 1L).put("v", value);
        String record = new String(converter.fromConnectData("topic", row, struct), StandardCharsets.UTF_8);
        System.out.println(String.join("\t", name, type, shown, record));
        if (value != null && !(value instanceof Double number && !Double.isFinite(number))) { // Connect reads those as 0
            try {
                System.out.println(String.join("\t", "missing " + name, type, shown, missing(converter, record)));
            } catch (SchemaBuilderException refused) {
                System.err.println(name + ": the converter refuses such a default");
            }
        }
    }

    /** The record without its value, which is the default; the converter must read the value all the same. */
    private static String missing(JsonConverter converter, String record) {
        try {
            ObjectNode json = (ObjectNode) MAPPER.readTree(record);
            ObjectNode payload = (ObjectNode) json.get("payload");
            JsonNode value = payload.remove("v");
            ((ObjectNode) json.at("/schema/fields/1")).set("default", value);
            String text = MAPPER.writeValueAsString(json);
            SchemaAndValue read = converter.toConnectData("topic", text.getBytes(StandardCharsets.UTF_8));
            JsonNode again = MAPPER.readTree(converter.fromConnectData("topic", read.schema(), read.value()));
            if (!again.at("/payload/v").equals(value)) {
                throw new IllegalStateException(text + " is read as " + again.at("/payload/v"));
            }
            return text;
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private static JsonConverter converter(String decimals) {
        JsonConverter converter = new JsonConverter();
        converter.configure(Map.of("schemas.enable", true, "decimal.format", decimals), false);
        return converter;
    }
}
