import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.function.Supplier;

import org.opensearch.common.settings.Settings;
import org.opensearch.env.Environment;
import org.opensearch.node.InternalSettingsPreparer;

/** One OpenSearch node out of plain jars: `Node HOME HTTP_PORT TRANSPORT_PORT key=value…`; SIGTERM ends it. */
public class Node extends org.opensearch.node.Node {
    Node(Environment environment, List plugins) {
        super(environment, plugins, false);
    }

    public static void main(String[] arguments) throws Exception {
        Path home = Paths.get(arguments[0], new String[0]).toAbsolutePath();
        Settings.Builder settings = Settings.builder();
        settings.put("path.home", home.toString());
        settings.put("cluster.name", "tests");
        settings.put("node.name", "node");
        settings.put("network.host", "127.0.0.1");
        settings.put("http.port", arguments[1]);
        settings.put("transport.port", arguments[2]);
        settings.put("http.type", "netty4");
        settings.put("transport.type", "netty4");
        settings.put("discovery.type", "single-node");
        settings.put("cluster.routing.allocation.disk.threshold_enabled", "false");
        for (int i = 3; i < arguments.length; i++) {
            int at = arguments[i].indexOf('=');
            settings.put(arguments[i].substring(0, at), arguments[i].substring(at + 1));
        }
        Environment environment = InternalSettingsPreparer.prepareEnvironment(
            settings.build(), new HashMap(), home.resolve("config"),
            new Supplier() { public Object get() { return "node"; } });
        List plugins = new ArrayList();
        plugins.add(org.opensearch.transport.Netty4Plugin.class);
        plugins.add(org.opensearch.painless.PainlessPlugin.class);
        plugins.add(org.opensearch.ingest.common.IngestCommonPlugin.class);
        final Node node = new Node(environment, plugins);
        node.start();
        Runtime.getRuntime().addShutdownHook(new Thread() {
            public void run() {
                try { node.close(); } catch (Exception error) { error.printStackTrace(); }
            }
        });
        new CountDownLatch(1).await();
    }
}
