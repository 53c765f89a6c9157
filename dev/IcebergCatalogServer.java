import java.io.StringReader;
import java.net.InetSocketAddress;
import java.util.Properties;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.servlet.ServletContextHandler;
import org.eclipse.jetty.servlet.ServletHolder;

/**
 * Iceberg's reference REST catalog on a port of 127.0.0.1; its own main class listens on every address.
 *
 * The port is the argument. The variable CATALOG_PROPERTIES has the catalog's properties, one a line: name=value.
 */
public class IcebergCatalogServer {
    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        properties.load(new StringReader(System.getenv("CATALOG_PROPERTIES")));
        // Janino, which compiles this, sees no parameters of types: Properties will do.
        RESTCatalogAdapter adapter =
            new RESTCatalogAdapter(CatalogUtil.buildIcebergCatalog("catalog", properties, new Configuration()));
        ServletContextHandler paths = new ServletContextHandler();
        paths.addServlet(new ServletHolder(new RESTCatalogServlet(adapter)), "/*");
        Server server = new Server(new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0])));
        server.setHandler(paths);
        server.start();
        server.join();
    }
}
