import com.taobao.metamorphosis.Message;
import com.taobao.metamorphosis.client.MetaClientConfig;
import com.taobao.metamorphosis.client.MetaMessageSessionFactory;
import com.taobao.metamorphosis.client.consumer.ConsumerConfig;
import com.taobao.metamorphosis.client.consumer.MessageConsumer;
import com.taobao.metamorphosis.client.consumer.MessageListener;
import com.taobao.metamorphosis.client.consumer.SimpleFetchManager;
import com.taobao.metamorphosis.client.producer.MessageProducer;
import com.taobao.metamorphosis.client.producer.SendMessageCallback;
import com.taobao.metamorphosis.client.producer.SendResult;
import com.taobao.metamorphosis.utils.ZkUtils.ZKConfig;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executor;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;

/**
 * The released Java client at work: ClientLoad HOW ZOOKEEPER TOPIC MESSAGES SIZE WIDTH.
 *
 * HOW is callback (WIDTH sends in flight), threads (WIDTH threads, each waiting for its
 * send), consume (WIDTH fetch threads) or consume-bare (without the memory for
 * duplicates). A third of the messages is sent or received
 * before the count begins, so that the JVM is warm. Prints messages a second.
 */
public final class ClientLoad {
    private static final AtomicInteger failures = new AtomicInteger();

    public static void main(String[] arguments) throws Exception {
        ZKConfig zookeeper = new ZKConfig();
        zookeeper.setZkConnect(arguments[1]);
        MetaClientConfig config = new MetaClientConfig();
        config.setZkConfig(zookeeper);
        MetaMessageSessionFactory factory = new MetaMessageSessionFactory(config);
        String topic = arguments[2];
        int messages = Integer.parseInt(arguments[3]);
        byte[] body = new byte[Integer.parseInt(arguments[4])];
        int width = Integer.parseInt(arguments[5]);
        double rate;
        if (arguments[0].startsWith("consume")) {
            if (arguments[0].endsWith("-bare")) {
                SimpleFetchManager.setMessageIdCache(null);
            }
            rate = consume(factory, topic, messages, width);
        } else {
            MessageProducer producer = factory.createProducer();
            producer.publish(topic);
            boolean callback = arguments[0].equals("callback");
            send(callback, producer, topic, body, messages / 3, width);
            long began = System.nanoTime();
            send(callback, producer, topic, body, messages, width);
            rate = messages * 1e9 / (System.nanoTime() - began);
        }
        System.out.printf("{\"rate\": %d, \"failures\": %d}%n", (long) rate, failures.get());
        System.out.flush();
        factory.shutdown();
        System.exit(0);
    }

    private static void send(
            boolean callback, MessageProducer producer, String topic, byte[] body, int messages,
            int width) throws Exception {
        if (callback) {
            withCallback(producer, topic, body, messages, width);
        } else {
            inThreads(producer, topic, body, messages, width);
        }
    }

    private static void withCallback(
            MessageProducer producer, String topic, byte[] body, int messages, int width)
            throws Exception {
        Semaphore window = new Semaphore(width);
        SendMessageCallback answered = new SendMessageCallback() {
            @Override
            public void onMessageSent(SendResult result) {
                if (!result.isSuccess()) {
                    failures.incrementAndGet();
                }
                window.release();
            }

            @Override
            public void onException(Throwable error) {
                failures.incrementAndGet();
                window.release();
            }
        };
        for (int sent = 0; sent < messages; sent++) {
            window.acquire();
            producer.sendMessage(new Message(topic, body), answered, 10, TimeUnit.SECONDS);
        }
        window.acquire(width);
    }

    private static void inThreads(
            MessageProducer producer, String topic, byte[] body, int messages, int width)
            throws Exception {
        AtomicInteger left = new AtomicInteger(messages);
        Thread[] threads = new Thread[width];
        for (int index = 0; index < width; index++) {
            threads[index] = new Thread(() -> {
                while (left.getAndDecrement() > 0) {
                    try {
                        SendResult result = producer.sendMessage(
                                new Message(topic, body), 10, TimeUnit.SECONDS);
                        if (!result.isSuccess()) {
                            failures.incrementAndGet();
                        }
                    } catch (Exception error) {
                        failures.incrementAndGet();
                    }
                }
            });
            threads[index].start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
    }

    private static double consume(
            MetaMessageSessionFactory factory, String topic, int messages, int width)
            throws Exception {
        ConsumerConfig config = new ConsumerConfig("load-" + System.nanoTime());
        config.setFetchRunnerCount(width);
        config.setMaxDelayFetchTimeInMills(100);
        AtomicLong received = new AtomicLong();
        AtomicLong began = new AtomicLong();
        int warm = messages / 3;
        CountDownLatch done = new CountDownLatch(1);
        MessageConsumer consumer = factory.createConsumer(config);
        consumer.subscribe(topic, 1024 * 1024, new MessageListener() {
            @Override
            public void recieveMessages(Message message) {
                long count = received.incrementAndGet();
                if (count == warm) {
                    began.set(System.nanoTime());
                } else if (count == messages) {
                    done.countDown();
                }
            }

            @Override
            public Executor getExecutor() {
                return null;
            }
        });
        consumer.completeSubscribe();
        done.await();
        return (messages - warm) * 1e9 / (System.nanoTime() - began.get());
    }
}
