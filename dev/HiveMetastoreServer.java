import java.net.InetSocketAddress;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.HiveMetaStore;
import org.apache.hadoop.hive.metastore.IHMSHandler;
import org.apache.hadoop.hive.metastore.TSetIpAddressProcessor;
import org.apache.hadoop.hive.metastore.txn.TxnDbUtil;
import org.apache.thrift.protocol.TBinaryProtocol;
import org.apache.thrift.server.TThreadPoolServer;
import org.apache.thrift.transport.TServerSocket;

/** Hive's metastore on a port of 127.0.0.1; its own main class listens on every address. The port is the argument. */
public class HiveMetastoreServer {
    public static void main(String[] arguments) throws Exception {
        HiveConf conf = new HiveConf();
        TxnDbUtil.setConfValues(conf);
        TxnDbUtil.prepDb(conf);
        IHMSHandler handler =
            HiveMetaStore.newRetryingHMSHandler(new HiveMetaStore.HMSHandler("server", conf, false), conf);
        TServerSocket socket =
            new TServerSocket(new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0])));
        TThreadPoolServer.Args server = new TThreadPoolServer.Args(socket);
        server.processor(new TSetIpAddressProcessor(handler));
        server.protocolFactory(new TBinaryProtocol.Factory());
        new TThreadPoolServer(server).serve();
    }
}
