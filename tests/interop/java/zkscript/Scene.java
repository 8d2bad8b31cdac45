package zkscript;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;

/** A part of the script, with a fresh directory {@code root} and clients of its own. */
final class Scene implements AutoCloseable {
    static final int SESSION_MS = 10_000;
    static final int WAIT_S = 20;

    final String address;
    final String root;
    final String fence;
    final Ledger ledger = new Ledger();
    private final String name;
    private final Map<String, Integer> asked = new HashMap<>();
    private final List<ZooKeeper> clients = new ArrayList<>();

    Scene(String name, String address) throws Exception {
        this.name = name;
        this.address = address;
        String token = Long.toHexString(System.nanoTime());
        root = "/java-" + token;
        fence = "/java-fence-" + token;
        make(open("script"), root);
    }

    /** What a scene does; its step is what it answers. */
    interface Step extends Callable<Object> {}

    void note(String words, Object answer) {
        int times = asked.merge(words, 1, Integer::sum);
        String step = times > 1 ? words + " (" + times + ")" : words;
        String shown = ledger.show(answer).replace(root, "~");
        System.out.println("java " + name + ": " + step + " -> " + shown);
    }

    void ask(String words, Step step) throws Exception {
        Object answer;
        try {
            answer = step.call();
        } catch (KeeperException | IllegalArgumentException error) {
            answer = error instanceof KeeperException ? error : "IllegalArgument";
        }
        note(words, answer);
    }

    /** A connected client; stats show its session by that name. */
    ZooKeeper open(String session) throws Exception {
        return open(session, address, new States());
    }

    ZooKeeper open(String session, String where, States states) throws Exception {
        ZooKeeper client = new ZooKeeper(where, SESSION_MS, states);
        return opened(session, client, states);
    }

    ZooKeeper opened(String session, ZooKeeper client, States states) throws Exception {
        clients.add(client);
        states.waitFor("SyncConnected");
        ledger.nameSession(client.getSessionId(), session);
        return client;
    }

    static String make(ZooKeeper client, String path) throws Exception {
        return make(client, path, CreateMode.PERSISTENT);
    }

    static String make(ZooKeeper client, String path, CreateMode mode) throws Exception {
        return client.create(path, new byte[0], ZooDefs.Ids.OPEN_ACL_UNSAFE, mode);
    }

    /** Wait for all that the client sent before. */
    static void sync(ZooKeeper client, String path) throws Exception {
        CountDownLatch done = new CountDownLatch(1);
        client.sync(path, (code, where, context) -> done.countDown(), null);
        if (!done.await(WAIT_S, TimeUnit.SECONDS)) {
            throw new TimeoutException("sync");
        }
    }

    /** Poll until it is true. */
    static void waitUntil(Callable<Boolean> isSo) throws Exception {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(WAIT_S);
        while (!isSo.call()) {
            if (System.nanoTime() > deadline) {
                throw new TimeoutException("not within " + WAIT_S + " s");
            }
            Thread.sleep(10);
        }
    }

    @Override
    public void close() {
        for (ZooKeeper client : clients) {
            try {
                client.close();
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
            }
        }
    }
}
