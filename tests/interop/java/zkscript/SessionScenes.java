package zkscript;

import static org.apache.zookeeper.CreateMode.EPHEMERAL;
import static org.apache.zookeeper.CreateMode.PERSISTENT;
import static zkscript.Scene.make;

import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.Stat;

/** Sessions that resume, move, end and expire. */
final class SessionScenes {
    private static final int SHORT_MS = 2000;
    private static final int TOO_LARGE_BYTES = 1_100_000;

    private SessionScenes() {}

    static void resumed(Scene scene) throws Exception {
        ZooKeeper observer = scene.open("B");
        String path = scene.root + "/e";
        States states = new States();
        try (Relay relay = new Relay(scene.address)) {
            ZooKeeper client = scene.open("A", relay.address, states);
            long id = client.getSessionId();
            scene.note("timeout", client.getSessionTimeout());
            make(client, path, EPHEMERAL);
            relay.cut();
            scene.note("cut", states.waitFor("Disconnected"));
            scene.ask("meanwhile", () -> observer.exists(path, false));
            relay.heal();
            scene.note("healed", states.waitFor("SyncConnected"));
            scene.note("same session", client.getSessionId() == id);
            scene.ask("afterwards", () -> observer.exists(path, false));
            scene.ask("another", () -> make(client, path + "2", EPHEMERAL));
            scene.ask("its owner", () -> observer.exists(path + "2", false));
        }
    }

    /** The server closes the connection on a frame that is too large, and no more. */
    static void tooLarge(Scene scene) throws Exception {
        ZooKeeper observer = scene.open("B");
        States states = new States();
        ZooKeeper client = scene.open("A", scene.address, states);
        make(client, scene.root + "/e", EPHEMERAL);
        String path = scene.root + "/large";
        byte[] data = new byte[TOO_LARGE_BYTES];
        scene.ask("create",
                () -> client.create(path, data, Ids.OPEN_ACL_UNSAFE, PERSISTENT));
        scene.note("states", states.waitFor("SyncConnected"));
        scene.ask("was not created", () -> client.exists(path, false));
        scene.ask("ephemeral", () -> observer.exists(scene.root + "/e", false));
    }

    static void takenOver(Scene scene) throws Exception {
        ZooKeeper observer = scene.open("B");
        String path = scene.root + "/e";
        States states = new States();
        try (Relay relay = new Relay(scene.address)) {
            ZooKeeper first = scene.open("A", relay.address, states);
            make(first, path, EPHEMERAL);
            long id = first.getSessionId();
            byte[] password = first.getSessionPasswd();
            relay.cut();
            states.waitFor("Disconnected");
            States refused = new States();
            ZooKeeper wrong = new ZooKeeper(
                    scene.address, Scene.SESSION_MS, refused, id, new byte[16]);
            scene.note("wrong password", refused.waitFor("Expired"));
            scene.ask("then", () -> wrong.exists(path, false));
            scene.ask("the ephemeral", () -> observer.exists(path, false));
            States granted = new States();
            ZooKeeper second = scene.opened("A", new ZooKeeper(
                    scene.address, Scene.SESSION_MS, granted, id, password), granted);
            scene.note("same session", second.getSessionId() == id);
            scene.ask("the second reads", () -> second.exists(path, false));
            second.close();
            scene.ask("after its close", () -> observer.exists(path, false));
            relay.heal();
            scene.note("the first", states.waitFor("Expired"));
        }
    }

    static void ended(Scene scene) throws Exception {
        ZooKeeper observer = scene.open("B");
        ZooKeeper client = scene.open("A");
        EventLog log = new EventLog(observer, scene);
        for (String name : new String[] {"a", "b", "c"}) {
            make(client, scene.root + "/" + name, EPHEMERAL);
            observer.getData(scene.root + "/" + name, log.watch("data"), new Stat());
        }
        observer.getChildren(scene.root, log.watch("list"));
        client.close();
        scene.ask("at once", () -> observer.getChildren(scene.root, false));
        scene.note("events, sorted", log.drainedSorted());
        scene.ask("the root", () -> observer.exists(scene.root, false));
        scene.ask("a closed client", () -> client.exists(scene.root, false));
    }

    static void expired(Scene scene) throws Exception {
        ZooKeeper observer = scene.open("B");
        String path = scene.root + "/e";
        EventLog log = new EventLog(observer, scene);
        States states = new States();
        try (Relay relay = new Relay(scene.address)) {
            ZooKeeper client = scene.opened(
                    "A", new ZooKeeper(relay.address, SHORT_MS, states), states);
            scene.note("timeout", client.getSessionTimeout());
            make(client, path, EPHEMERAL);
            observer.exists(path, log.watch("exists"));
            observer.getChildren(scene.root, log.watch("list"));
            relay.cut();
            Scene.waitUntil(() -> observer.exists(path, false) == null);
            scene.note("events, sorted", log.drainedSorted());
            relay.heal();
            scene.note("the client", states.waitFor("Expired"));
            scene.ask("its requests", () -> client.exists(path, false));
            ZooKeeper anew = scene.open("C", relay.address, new States());
            scene.ask("anew", () -> make(anew, path, EPHEMERAL));
            scene.ask("its owner", () -> observer.exists(path, false));
            anew.close();
        }
    }
}
