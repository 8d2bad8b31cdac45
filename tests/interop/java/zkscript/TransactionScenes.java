package zkscript;

import static org.apache.zookeeper.CreateMode.EPHEMERAL;
import static org.apache.zookeeper.CreateMode.PERSISTENT;
import static org.apache.zookeeper.CreateMode.PERSISTENT_SEQUENTIAL;
import static zkscript.NodeScenes.bytes;
import static zkscript.Scene.make;

import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;

/** Multi: all or nothing. */
final class TransactionScenes {
    private TransactionScenes() {}

    private static Op create(String path, CreateMode mode) {
        return Op.create(path, bytes("made"), Ids.OPEN_ACL_UNSAFE, mode.toFlag());
    }

    /** The results, those of a failed multi after its error. */
    private static Object commit(ZooKeeper client, Scene scene, Op... operations)
            throws Exception {
        try {
            return client.multi(Arrays.asList(operations));
        } catch (KeeperException error) {
            return scene.ledger.show(error) + " " + scene.ledger.show(error.getResults());
        }
    }

    static void committed(Scene scene) throws Exception {
        ZooKeeper client = scene.open("A");
        ZooKeeper observer = scene.open("B");
        String root = scene.root;
        EventLog log = new EventLog(observer, scene);
        observer.exists(root + "/a", log.watch("exists"));
        observer.getChildren(root, log.watch("list"));
        scene.ask("everything", () -> commit(client, scene,
                create(root + "/a", PERSISTENT),
                create(root + "/a/b", EPHEMERAL),
                Op.check(root + "/a", 0),
                Op.setData(root + "/a", bytes("changed"), 0),
                create(root + "/a/s-", PERSISTENT_SEQUENTIAL),
                create(root + "/a/s-", PERSISTENT_SEQUENTIAL),
                Op.delete(root + "/a/b", 0)));
        scene.note("events", log.drained());
        scene.ask("the node", () -> NodeScenes.read(client, root + "/a"));
        scene.ask("the root", () -> client.exists(root, false));
        scene.ask("children", () -> client.getChildren(root + "/a", false));
        scene.ask("by a transaction", () -> client.transaction()
                .check(root + "/a", 1)
                .setData(root + "/a", bytes("again"), 1)
                .commit());
        scene.ask("nothing", () -> commit(client, scene));
    }

    static void refused(Scene scene) throws Exception {
        ZooKeeper client = scene.open("A");
        String root = scene.root;
        make(client, root + "/p");
        make(client, root + "/p/kid");
        make(client, root + "/e", EPHEMERAL);
        Map<String, Op> failures = new LinkedHashMap<>();
        failures.put("create of a present", create(root + "/p", PERSISTENT));
        failures.put("create without parent", create(root + "/x/y", PERSISTENT));
        failures.put("create under ephemeral", create(root + "/e/y", PERSISTENT));
        failures.put("delete of a missing", Op.delete(root + "/x", -1));
        failures.put("delete with children", Op.delete(root + "/p", -1));
        failures.put("delete, wrong version", Op.delete(root + "/e", 3));
        failures.put("set of a missing", Op.setData(root + "/x", bytes(""), -1));
        failures.put("set, wrong version", Op.setData(root + "/p", bytes(""), 3));
        failures.put("check of a missing", Op.check(root + "/x", -1));
        failures.put("check, wrong version", Op.check(root + "/p", 3));
        for (Map.Entry<String, Op> one : failures.entrySet()) {
            scene.ask(one.getKey(), () -> commit(client, scene,
                    create(root + "/new", PERSISTENT),
                    Op.setData(root + "/p", bytes("changed"), -1),
                    one.getValue(),
                    Op.delete(root + "/p/kid", -1)));
        }
        scene.ask("new", () -> client.exists(root + "/new", false));
        scene.ask("the node", () -> NodeScenes.read(client, root + "/p"));
        scene.ask("the child", () -> client.exists(root + "/p/kid", false));
        scene.ask("next sequence", () -> make(client, root + "/s-", PERSISTENT_SEQUENTIAL));
    }
}
