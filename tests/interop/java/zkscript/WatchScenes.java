package zkscript;

import static zkscript.NodeScenes.bytes;
import static zkscript.Scene.make;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.data.Stat;

/** Which change fires which watch, once and in order, over a broken connection too. */
final class WatchScenes {
    private static final String[] WATCHES = {"exists", "data", "children", "none yet"};
    private static final int PIPELINED = 1000;

    private WatchScenes() {}

    private interface Change {
        void make(ZooKeeper client, String path) throws Exception;
    }

    private static Map<String, Change> changes() {
        Map<String, Change> changes = new LinkedHashMap<>();
        changes.put("created", Scene::make);
        changes.put("set", (client, path) -> client.setData(path, bytes("1"), -1));
        changes.put("deleted", (client, path) -> client.delete(path, -1));
        changes.put("child created", (client, path) -> make(client, path + "/new"));
        changes.put("child set",
                (client, path) -> client.setData(path + "/kid", bytes("1"), -1));
        changes.put("child deleted", (client, path) -> client.delete(path + "/kid", -1));
        changes.put("acl set",
                (client, path) -> client.setACL(path, Ids.OPEN_ACL_UNSAFE, -1));
        return changes;
    }

    /** Make the node of a case, without which "created" and "none yet" begin. */
    private static void prepare(ZooKeeper client, String kind, String change, String path)
            throws Exception {
        if (!kind.equals("none yet")) {
            make(client, path);
            if (!change.equals("deleted")) {
                make(client, path + "/kid");
            }
        }
    }

    private static void watch(ZooKeeper client, EventLog log, String kind, String path)
            throws Exception {
        if (kind.equals("data")) {
            client.getData(path, log.watch(kind), new Stat());
        } else if (kind.equals("children")) {
            client.getChildren(path, log.watch(kind));
        } else {
            client.exists(path, log.watch("exists"));
        }
    }

    private static String tried(Change change, ZooKeeper client, String path)
            throws Exception {
        try {
            change.make(client, path);
            return "";
        } catch (KeeperException error) {
            return error.code() + " ";
        }
    }

    static void firing(Scene scene) throws Exception {
        ZooKeeper client = scene.open("A");
        ZooKeeper changer = scene.open("B");
        EventLog log = new EventLog(client, scene);
        int number = 0;
        for (String kind : WATCHES) {
            for (Map.Entry<String, Change> change : changes().entrySet()) {
                String path = scene.root + "/" + number++;
                prepare(changer, kind, change.getKey(), path);
                watch(client, log, kind, path);
                String refused = tried(change.getValue(), changer, path)
                        + tried(change.getValue(), changer, path);
                scene.note(kind + ", " + change.getKey() + " twice",
                        refused + log.drained());
            }
        }
    }

    /** The client sends its watches again by itself once it is connected again. */
    static void overBreak(Scene scene) throws Exception {
        ZooKeeper changer = scene.open("B");
        Map<String, String> cases = new LinkedHashMap<>();
        States states = new States();
        try (Relay relay = new Relay(scene.address)) {
            ZooKeeper client = scene.open("A", relay.address, states);
            EventLog log = new EventLog(client, scene);
            for (String kind : WATCHES) {
                for (String change : changes().keySet()) {
                    String path = scene.root + "/" + cases.size();
                    cases.put(path, change);
                    prepare(changer, kind, change, path);
                }
            }
            Scene.sync(client, scene.root);
            int number = 0;
            for (String kind : WATCHES) {
                for (int count = 0; count < changes().size(); count++) {
                    watch(client, log, kind, scene.root + "/" + number++);
                }
            }
            relay.cut();
            scene.note("states", states.waitFor("Disconnected"));
            for (Map.Entry<String, String> one : cases.entrySet()) {
                tried(changes().get(one.getValue()), changer, one.getKey());
            }
            relay.heal();
            states.waitFor("SyncConnected");
            note(scene, "on resume", log.drain());
            for (String path : cases.keySet()) {
                tried(Scene::make, changer, path);
                tried((one, node) -> one.setData(node, bytes("2"), -1), changer, path);
                tried((one, node) -> make(one, node + "/after"), changer, path);
            }
            note(scene, "later", log.drain());
        }
    }

    private static void note(Scene scene, String words, List<String> events) {
        events.sort(null);
        for (String event : events) {
            scene.note(words, event);
        }
        scene.note(words + ", all", events.size());
    }

    static void eventBeforeReply(Scene scene) throws Exception {
        ZooKeeper client = scene.open("A");
        ZooKeeper changer = scene.open("B");
        String path = scene.root + "/n";
        EventLog log = new EventLog(client, scene);
        client.exists(path, log.watch("exists"));
        client.getChildren(scene.root, log.watch("list"));
        client.create(path, bytes(""), Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT,
                (code, where, context, name) -> log.say("create " + code), null);
        scene.note("create", log.drained());
        client.getData(path, log.watch("data"), new Stat());
        client.getChildren(path, log.watch("list"));
        client.setData(path, bytes("1"), -1,
                (code, where, context, stat) -> log.say("set " + code), null);
        client.setData(path, bytes("2"), -1,
                (code, where, context, stat) -> log.say("set " + code), null);
        client.delete(path, -1, (code, where, context) -> log.say("delete " + code), null);
        scene.note("sets and delete", log.drained());
        make(changer, path);
        for (int round = 0; round < 5; round++) {
            client.getData(path, log.watch("data"), new Stat());
            changer.setData(path, bytes("round " + round), -1);
            client.getData(path, false,
                    (code, where, context, data, stat) -> log.say(scene.ledger.show(data)),
                    null);
            scene.note("other's set", log.drained());
        }
    }

    static void pipelined(Scene scene) throws Exception {
        ZooKeeper client = scene.open("A");
        List<String> answers = new ArrayList<>();
        CountDownLatch left = new CountDownLatch(2 * PIPELINED);
        for (int number = 0; number < PIPELINED; number++) {
            String path = scene.root + "/" + number / 2;
            String words = number + " ";
            client.create(path, bytes(""), Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT,
                    (code, where, context, name) -> {
                        answers.add(words + code);
                        left.countDown();
                    }, null);
            client.exists(path, false, (code, where, context, stat) -> {
                answers.add(words + code + " " + stat.getVersion());
                left.countDown();
            }, null);
        }
        scene.note("all came", left.await(Scene.WAIT_S, TimeUnit.SECONDS));
        List<String> expected = new ArrayList<>();
        for (int number = 0; number < PIPELINED; number++) {
            expected.add(number + (number % 2 == 0 ? " 0" : " -110"));
            expected.add(number + " 0 0");
        }
        scene.note("in order", answers.equals(expected));
    }
}
