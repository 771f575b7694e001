import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Function;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.rest.HTTPClient;
import org.apache.iceberg.rest.RESTCatalog;
import org.apache.iceberg.rest.RESTClient;
import org.apache.iceberg.rest.RESTUtil;
import org.apache.iceberg.rest.credentials.Credential;
import org.apache.iceberg.rest.credentials.ImmutableCredential;
import org.apache.iceberg.rest.responses.ConfigResponse;
import org.apache.iceberg.rest.responses.LoadTableResponse;
import org.apache.iceberg.util.JsonUtil;

/**
 * A REST catalog whose server decides only what `trust.py` allows. Iceberg merges the server's properties over the
 * user's, and some of them name classes to load; so they are filtered in each answer, before Iceberg sees them.
 */
public class RestGuard implements Function, InvocationHandler {
  private Map own;
  private List allowed;
  private Set ignored = new TreeSet();
  private Object client;

  /**
   * Open a REST catalog.
   *
   * @param own the properties that the server cannot replace, as a JSON object
   * @param allowed names that a server may set, and beginnings of names, which end with a dot or colon, as a JSON array
   */
  public Catalog open(String name, Map properties, Object conf, String own, String allowed) throws Exception {
    this.own = (Map) JsonUtil.mapper().readValue(own, Map.class);
    this.allowed = (List) JsonUtil.mapper().readValue(allowed, List.class);
    RESTCatalog catalog = new RESTCatalog(this);
    catalog.setConf(conf);
    catalog.initialize(name, properties);
    return catalog;
  }

  /** The names that were ignored since the last call, separated by commas. */
  public String ignored() {
    synchronized (ignored) {
      String names = String.join(", ", ignored);
      ignored.clear();
      return names;
    }
  }

  /** Return a client for these properties, as Iceberg makes it by default. */
  public Object apply(Object properties) {
    Map config = (Map) properties;
    String uri = (String) config.get("uri");
    return guarded(HTTPClient.builder(config).uri(uri).withHeaders(RESTUtil.configHeaders(config)).build());
  }

  private Object guarded(Object other) {
    RestGuard guard = new RestGuard();
    guard.own = own;
    guard.allowed = allowed;
    guard.ignored = ignored;
    guard.client = other;
    return Proxy.newProxyInstance(RESTClient.class.getClassLoader(), new Class[] {RESTClient.class}, guard);
  }

  public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
    Object answer;
    try {
      answer = method.invoke(client, arguments);
    } catch (InvocationTargetException error) {
      throw error.getCause();
    }
    if (answer instanceof RESTClient) {
      return guarded(answer);
    }
    if (answer instanceof ConfigResponse) {
      return config((ConfigResponse) answer);
    }
    return answer instanceof LoadTableResponse ? table((LoadTableResponse) answer) : answer;
  }

  private Object config(ConfigResponse answer) {
    return ConfigResponse.builder()
        .withDefaults(filtered(answer.defaults()))
        .withOverrides(filtered(answer.overrides()))
        .withEndpoints(answer.endpoints())
        .withIdempotencyKeyLifetime(answer.idempotencyKeyLifetime())
        .build();
  }

  private Object table(LoadTableResponse answer) {
    LoadTableResponse.Builder builder = LoadTableResponse.builder()
        .withTableMetadata(answer.tableMetadata())
        .addAllConfig(filtered(answer.config()))
        .withRemoteSigningConfig(answer.remoteSigningConfig())
        .withLabels(answer.labels());
    for (Iterator each = answer.credentials().iterator(); each.hasNext();) {
      Credential credential = (Credential) each.next();
      Map left = filtered(credential.config());
      if (!left.isEmpty()) {
        builder.addCredential(ImmutableCredential.copyOf(credential).withConfig(left));
      }
    }
    return builder.build();
  }

  private Map filtered(Map properties) {
    Map kept = new HashMap();
    for (Iterator each = properties.entrySet().iterator(); each.hasNext();) {
      Map.Entry entry = (Map.Entry) each.next();
      String name = (String) entry.getKey();
      if (own.containsKey(name)) {
        continue;
      }
      if (isAllowed(name)) {
        kept.put(name, entry.getValue());
      } else {
        synchronized (ignored) {
          ignored.add(name);
        }
      }
    }
    return kept;
  }

  private boolean isAllowed(String name) {
    for (Iterator each = allowed.iterator(); each.hasNext();) {
      String other = (String) each.next();
      if (name.equals(other) || (other.endsWith(".") || other.endsWith(":")) && name.startsWith(other)) {
        return true;
      }
    }
    return false;
  }
}
