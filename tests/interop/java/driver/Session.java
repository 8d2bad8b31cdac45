package driver;

import com.taobao.gecko.service.Connection;
import com.taobao.gecko.service.ConnectionLifeCycleListener;
import com.taobao.metamorphosis.client.MetaClientConfig;
import com.taobao.metamorphosis.client.MetaMessageSessionFactory;
import com.taobao.metamorphosis.client.consumer.MessageConsumer;
import com.taobao.metamorphosis.client.producer.MessageProducer;
import com.taobao.metamorphosis.cluster.Partition;
import com.taobao.metamorphosis.utils.ZkUtils.ZKConfig;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;

/**
 * One MetaMessageSessionFactory, that is, one ZooKeeper session and one connection to
 * each broker, with one producer and any number of consumers. Used by one thread.
 */
final class Session {
    final String name;
    private final Output output;
    private final Map<String, MessageConsumer> consumers = new LinkedHashMap<>();
    private MetaMessageSessionFactory factory;
    private MessageProducer producer;

    Session(String name, Output output) {
        this.name = name;
        this.output = output;
    }

    /** Do what a request asks for, and hand its result on, now or later. */
    void perform(Request request, Consumer<Object> answer) throws Exception {
        switch (request.text("verb")) {
            case "open":
                open(request);
                answer.accept(null);
                break;
            case "close":
                close();
                answer.accept(null);
                break;
            case "publish":
                producer().publish(request.text("topic"));
                answer.accept(null);
                break;
            case "partitions":
                answer.accept(partitions(request.text("topic")));
                break;
            case "send":
                answer.accept(new Sending(producer(), request).inTurn());
                break;
            case "sendWithCallback":
                new Sending(producer(), request).withCallback(answer);
                break;
            case "consume":
                consume(request);
                answer.accept(null);
                break;
            case "stopConsuming":
                stopConsuming(request.text("consumer"));
                answer.accept(null);
                break;
            case "browse":
                answer.accept(Browsing.all(factory(), request));
                break;
            default:
                throw new IllegalArgumentException("no such verb: " + request.text("verb"));
        }
    }

    private void open(Request request) throws Exception {
        if (factory != null) {
            throw new IllegalStateException("session " + name + " is open");
        }
        ZKConfig zookeeper = new ZKConfig();
        zookeeper.setZkConnect(request.text("zkConnect"));
        zookeeper.setZkRoot(request.text("zkRoot"));
        zookeeper.setZkSessionTimeoutMs((int) request.integer("sessionTimeoutMs"));
        zookeeper.setZkConnectionTimeoutMs((int) request.integer("connectionTimeoutMs"));
        zookeeper.setZkSyncTimeMs((int) request.integer("syncTimeMs"));
        MetaClientConfig config = new MetaClientConfig();
        config.setZkConfig(zookeeper);
        factory = new MetaMessageSessionFactory(config);
        factory.getRemotingClient().addConnectionLifeCycleListener(new Connections());
    }

    void close() throws Exception {
        if (factory != null) {
            factory.shutdown();
            factory = null;
            producer = null;
            consumers.clear();
        }
    }

    private MetaMessageSessionFactory factory() {
        if (factory == null) {
            throw new IllegalStateException("session " + name + " is not open");
        }
        return factory;
    }

    private MessageProducer producer() {
        if (producer == null) {
            producer = factory().createProducer();
        }
        return producer;
    }

    private List<String> partitions(String topic) {
        List<String> found = new ArrayList<>();
        for (Partition one : factory().getPartitionsForTopic(topic)) {
            found.add(one.toString());
        }
        return found;
    }

    private void consume(Request request) throws Exception {
        String consumer = request.text("consumer");
        if (consumers.containsKey(consumer)) {
            throw new IllegalStateException("consumer " + consumer + " is there");
        }
        Listening listening = new Listening(name, consumer, output);
        consumers.put(consumer, listening.start(factory(), request));
    }

    private void stopConsuming(String consumer) throws Exception {
        MessageConsumer stopped = consumers.remove(consumer);
        if (stopped == null) {
            throw new IllegalStateException("there is no consumer " + consumer);
        }
        stopped.shutdown();
    }

    /** Reports connections to brokers as events "connected" and "disconnected". */
    private final class Connections implements ConnectionLifeCycleListener {
        @Override
        public void onConnectionCreated(Connection connection) {
        }

        @Override
        public void onConnectionReady(Connection connection) {
            report("connected", connection);
        }

        @Override
        public void onConnectionClosed(Connection connection) {
            report("disconnected", connection);
        }

        private void report(String kind, Connection connection) {
            String broker = String.valueOf(connection.getRemoteSocketAddress());
            output.event(kind, Map.of("session", name, "broker", broker));
        }
    }
}
