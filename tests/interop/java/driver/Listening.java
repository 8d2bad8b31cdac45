package driver;

import com.taobao.metamorphosis.Message;
import com.taobao.metamorphosis.client.MetaMessageSessionFactory;
import com.taobao.metamorphosis.client.consumer.ConsumerConfig;
import com.taobao.metamorphosis.client.consumer.LoadBalanceStrategy;
import com.taobao.metamorphosis.client.consumer.MessageConsumer;
import com.taobao.metamorphosis.client.consumer.MessageListener;
import com.taobao.metamorphosis.client.consumer.SimpleFetchManager;
import com.taobao.metamorphosis.client.consumer.TopicPartitionRegInfo;

import java.util.Map;
import java.util.concurrent.Executor;

/** A consumer that reports each message as an event "received". */
final class Listening implements MessageListener {
    private final String session;
    private final String consumer;
    private final Output output;

    Listening(String session, String consumer, Output output) {
        this.session = session;
        this.consumer = consumer;
        this.output = output;
    }

    /** Subscribe to the topics and take part in the group. */
    MessageConsumer start(MetaMessageSessionFactory factory, Request request) throws Exception {
        MessageConsumer started = factory.createConsumer(config(request));
        for (String topic : request.texts("topics")) {
            started.subscribe(topic, (int) request.integer("maxSize"), this);
        }
        started.completeSubscribe();
        return started;
    }

    private static ConsumerConfig config(Request request) {
        ConsumerConfig config = new ConsumerConfig(request.text("group"));
        if (request.has("consumerId")) {
            config.setConsumerId(request.text("consumerId"));
        }
        config.setFetchRunnerCount(2);
        config.setMaxDelayFetchTimeInMills(request.integer("maxDelayFetchMs"));
        config.setCommitOffsetPeriodInMills(request.integer("commitPeriodMs"));
        config.setOffset(request.integer("offset"));
        config.setLoadBalanceStrategyType(
                LoadBalanceStrategy.Type.valueOf(request.text("strategy")));
        return config;
    }

    @Override
    public void recieveMessages(Message message) {
        // The monotonic clock of the host, as other processes read it.
        double atSeconds = System.nanoTime() / 1e9;
        Map<String, Object> members = Messages.write(message);
        TopicPartitionRegInfo position = SimpleFetchManager.currentTopicRegInfo();
        members.put("session", session);
        members.put("consumer", consumer);
        members.put("at", atSeconds);
        members.put("partition", message.getPartition().toString());
        members.put("nextOffset", position == null ? null : position.getOffset().get());
        output.event("received", members);
    }

    @Override
    public Executor getExecutor() {
        return null;
    }
}
