package zkscript;

import static org.apache.zookeeper.CreateMode.EPHEMERAL;
import static org.apache.zookeeper.CreateMode.EPHEMERAL_SEQUENTIAL;
import static org.apache.zookeeper.CreateMode.PERSISTENT;
import static org.apache.zookeeper.CreateMode.PERSISTENT_SEQUENTIAL;
import static zkscript.Scene.make;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooDefs.Perms;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Id;
import org.apache.zookeeper.data.Stat;

/** Creating, reading, setting, deleting, listing; access. */
final class NodeScenes {
    private static final int BIG_BYTES = 900 * 1024;

    private NodeScenes() {}

    /** Data and stat of a node. */
    static Object read(ZooKeeper client, String path) throws Exception {
        Stat stat = new Stat();
        byte[] data = client.getData(path, false, stat);
        return Arrays.asList(data, stat);
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static void creating(Scene scene) throws Exception {
        ZooKeeper client = scene.open("A");
        String root = scene.root;
        scene.ask("persistent", () -> make(client, root + "/p"));
        scene.ask("again", () -> make(client, root + "/p"));
        scene.ask("again, ephemeral", () -> make(client, root + "/p", EPHEMERAL));
        scene.ask("without parent", () -> make(client, root + "/none/child"));
        scene.ask("child", () -> make(client, root + "/p/child"));
        scene.ask("ephemeral", () -> make(client, root + "/e", EPHEMERAL));
        scene.ask("its stat", () -> client.exists(root + "/e", false));
        scene.ask("under ephemeral", () -> make(client, root + "/e/child"));
        for (int number = 0; number < 3; number++) {
            scene.ask("sequence", () -> make(client, root + "/p/s-", PERSISTENT_SEQUENTIAL));
            scene.ask("both", () -> make(client, root + "/p/b-", EPHEMERAL_SEQUENTIAL));
        }
        client.delete(root + "/p/s-0000000003", -1);
        scene.ask("after delete", () -> make(client, root + "/p/s-", PERSISTENT_SEQUENTIAL));
        scene.ask("no prefix", () -> make(client, root + "/p/", PERSISTENT_SEQUENTIAL));
        scene.ask("of ephemeral", () -> make(client, root + "/e/s-", PERSISTENT_SEQUENTIAL));
        scene.ask("all", () -> client.getChildren(root + "/p", false));
        scene.ask("the parent", () -> client.exists(root + "/p", false));
        scene.ask("the root", () -> make(client, "/"));
        scene.ask("bad path", () -> make(client, root + "//x"));
        ZooKeeper inside = scene.open("B", scene.address + root, new States());
        scene.ask("in a chroot", () -> make(inside, "/chrooted"));
        scene.ask("seen inside", () -> inside.getChildren("/", false));
        scene.ask("seen outside", () -> client.exists(root + "/chrooted", false));
    }

    static void contents(Scene scene) throws Exception {
        ZooKeeper client = scene.open("A");
        String root = scene.root;
        byte[] big = new byte[BIG_BYTES];
        for (int at = 0; at < big.length; at++) {
            big[at] = (byte) at;
        }
        Map<String, byte[]> values = new LinkedHashMap<>();
        values.put("null", null);
        values.put("empty", new byte[0]);
        values.put("one", new byte[] {'x'});
        values.put("big", big);
        make(client, root + "/target");
        for (Map.Entry<String, byte[]> entry : values.entrySet()) {
            String words = entry.getKey();
            byte[] data = entry.getValue();
            String path = root + "/" + words;
            scene.ask("create " + words,
                    () -> client.create(path, data, Ids.OPEN_ACL_UNSAFE, PERSISTENT));
            scene.ask("read " + words, () -> read(client, path));
            scene.ask("set " + words, () -> client.setData(root + "/target", data, -1));
            scene.ask("read again " + words, () -> read(client, root + "/target"));
        }
    }

    static void versions(Scene scene) throws Exception {
        ZooKeeper client = scene.open("A");
        String path = scene.root + "/v";
        make(client, path);
        for (int version : new int[] {1, 0, 0, 1, -1, 2, 3}) {
            byte[] data = bytes("version " + version);
            scene.ask("set " + version, () -> client.setData(path, data, version));
        }
        scene.ask("read", () -> read(client, path));
        scene.ask("set a missing", () -> client.setData(path + "-", bytes(""), -1));
        scene.ask("read a missing", () -> read(client, path + "-"));
        for (int version : new int[] {3, 5, 4}) {
            scene.ask("delete " + version, () -> delete(client, path, version));
        }
        scene.ask("delete a missing", () -> delete(client, path, -1));
        scene.ask("exists", () -> client.exists(path, false));
        make(client, path);
        make(client, path + "/kid");
        scene.ask("made anew", () -> client.exists(path, false));
        scene.ask("delete with a child", () -> delete(client, path, -1));
        scene.ask("delete the child", () -> delete(client, path + "/kid", 0));
        scene.ask("then", () -> client.exists(path, false));
        scene.ask("delete", () -> delete(client, path, 0));
    }

    static Object delete(ZooKeeper client, String path, int version) throws Exception {
        client.delete(path, version);
        return "deleted";
    }

    static void children(Scene scene) throws Exception {
        ZooKeeper client = scene.open("A");
        String root = scene.root;
        scene.ask("none", () -> client.getChildren(root, false));
        for (String name : new String[] {"a", "b b", "...", "\u00e9", "\u4e2d\u6587"}) {
            make(client, root + "/" + name);
        }
        Stat stat = new Stat();
        scene.note("names", client.getChildren(root, false, stat).size());
        scene.note("stat", stat);
        List<String> found = new ArrayList<>();
        for (String name : client.getChildren(root, false)) {
            found.add(name.length() + ":" + name.codePointAt(0));
        }
        scene.note("lengths and first characters", found);
        scene.ask("of a missing", () -> client.getChildren(root + "/none", false));
        scene.ask("of a missing, with stat",
                () -> client.getChildren(root + "/none", false, new Stat()));
        Scene.sync(client, root);
        scene.note("sync", "came back");
    }

    static void access(Scene scene) throws Exception {
        ZooKeeper owner = scene.open("A");
        ZooKeeper other = scene.open("B");
        String root = scene.root;
        String mine = root + "/mine";
        List<ACL> creator = Ids.CREATOR_ALL_ACL;
        scene.ask("creator without credentials",
                () -> owner.create(mine, bytes("1"), creator, PERSISTENT));
        owner.addAuthInfo("digest", bytes("user:secret"));
        scene.ask("creator", () -> owner.create(mine, bytes("1"), creator, PERSISTENT));
        scene.ask("list", () -> owner.getACL(mine, new Stat()));
        scene.ask("owner reads", () -> read(owner, mine));
        scene.ask("other reads", () -> read(other, mine));
        scene.ask("other exists", () -> other.exists(mine, false));
        scene.ask("other sets", () -> other.setData(mine, bytes("2"), -1));
        scene.ask("other lists", () -> other.getChildren(mine, false));
        scene.ask("other makes", () -> make(other, mine + "/kid"));
        scene.ask("other's acl", () -> other.setACL(mine, Ids.OPEN_ACL_UNSAFE, -1));
        other.addAuthInfo("digest", bytes("user:secret"));
        scene.ask("with credentials", () -> read(other, mine));
        scene.ask("acl, wrong version", () -> other.setACL(mine, Ids.OPEN_ACL_UNSAFE, 4));
        scene.ask("acl", () -> other.setACL(mine, Ids.OPEN_ACL_UNSAFE, 0));
        scene.ask("open list", () -> owner.getACL(mine, new Stat()));
        ACL odd = new ACL(Perms.ALL, new Id("nonsense", "x"));
        scene.ask("odd", () -> owner.setACL(mine, Arrays.asList(odd), -1));
        scene.ask("none", () -> owner.setACL(mine, new ArrayList<>(), -1));
    }
}
