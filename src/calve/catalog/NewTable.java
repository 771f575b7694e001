import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.iceberg.NullOrder;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Schema;
import org.apache.iceberg.SchemaParser;
import org.apache.iceberg.SortOrder;
import org.apache.iceberg.Table;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.SupportsNamespaces;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.AlreadyExistsException;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.JsonNode;
import org.apache.iceberg.util.JsonUtil;

/** Creates tables and namespaces: one call through py4j instead of thirty for each table. */
public class NewTable {
  /**
   * Create a table and its missing namespaces, or load it if it exists.
   *
   * @param layout an object, as JSON: `partitions`, pairs of a column and a transform; `order`, pairs of a column and
   *     `asc` or `desc`
   * @param properties an object, as JSON
   * @param location null: the catalog decides
   */
  public Table create(
      Catalog catalog, String identifier, String schemaJson, String layout, String properties, String location)
      throws Exception {
    Schema schema = SchemaParser.fromJson(schemaJson);
    JsonNode parts = JsonUtil.mapper().readTree(layout);
    PartitionSpec spec = spec(schema, parts.get("partitions"));
    Map settings = (Map) JsonUtil.mapper().readValue(properties, Map.class);
    TableIdentifier name = TableIdentifier.parse(identifier);
    createNamespaces(catalog, name.namespace());
    Catalog.TableBuilder builder = catalog.buildTable(name, schema).withPartitionSpec(spec).withProperties(settings);
    builder = builder.withSortOrder(order(schema, parts.get("order")));
    try {
      return (location == null ? builder : builder.withLocation(location)).create();
    } catch (AlreadyExistsException error) {
      return catalog.loadTable(name);
    }
  }

  /** Return why tables of a format version cannot have such columns, or null. */
  public String conflict(String schema, int version) {
    Schema parsed = SchemaParser.fromJson(schema);
    try {
      Schema.checkCompatibility(parsed, version);
      return null;
    } catch (IllegalStateException error) {
      return error.getMessage();
    }
  }

  /** Create the missing levels of a namespace, parents first, and return them. */
  public List createNamespaces(Catalog catalog, String name) {
    return createNamespaces(catalog, TableIdentifier.parse(name + ".table").namespace());
  }

  /** One at a time: each database has its own error for a namespace that is created twice in parallel. */
  private synchronized List createNamespaces(Catalog catalog, Namespace namespace) {
    List made = new ArrayList();
    if (!(catalog instanceof SupportsNamespaces)) {
      return made;
    }
    SupportsNamespaces namespaces = (SupportsNamespaces) catalog;
    for (int depth = 1; depth <= namespace.length(); depth++) {
      Namespace level = Namespace.of((String[]) Arrays.copyOf(namespace.levels(), depth));
      if (!namespaces.namespaceExists(level)) {
        try {
          namespaces.createNamespace(level);
          made.add(level);
        } catch (AlreadyExistsException error) {
          continue; // somebody else created it meanwhile
        }
      }
    }
    return made;
  }

  private static PartitionSpec spec(Schema schema, JsonNode fields) {
    PartitionSpec.Builder builder = PartitionSpec.builderFor(schema);
    for (Iterator each = fields.elements(); each.hasNext();) {
      JsonNode field = (JsonNode) each.next();
      add(builder, ((JsonNode) field.get(0)).textValue(), ((JsonNode) field.get(1)).textValue());
    }
    return builder.build();
  }

  private static SortOrder order(Schema schema, JsonNode fields) {
    SortOrder.Builder builder = SortOrder.builderFor(schema);
    for (Iterator each = fields.elements(); each.hasNext();) {
      JsonNode field = (JsonNode) each.next();
      String column = ((JsonNode) field.get(0)).textValue();
      if ("desc".equals(((JsonNode) field.get(1)).textValue())) {
        builder.desc(column, NullOrder.NULLS_LAST);
      } else {
        builder.asc(column, NullOrder.NULLS_FIRST);
      }
    }
    return builder.build();
  }

  private static void add(PartitionSpec.Builder builder, String column, String transform) {
    int at = transform.indexOf('[');
    String kind = at < 0 ? transform : transform.substring(0, at);
    int width = at < 0 ? 0 : Integer.parseInt(transform.substring(at + 1, transform.length() - 1));
    if (kind.equals("identity")) {
      builder.identity(column);
    } else if (kind.equals("bucket")) {
      builder.bucket(column, width);
    } else if (kind.equals("truncate")) {
      builder.truncate(column, width);
    } else if (kind.equals("year")) {
      builder.year(column);
    } else if (kind.equals("month")) {
      builder.month(column);
    } else if (kind.equals("day")) {
      builder.day(column);
    } else if (kind.equals("hour")) {
      builder.hour(column);
    } else if (kind.equals("void")) {
      builder.alwaysNull(column);
    } else {
      throw new IllegalArgumentException("Unknown transform: " + transform);
    }
  }
}
