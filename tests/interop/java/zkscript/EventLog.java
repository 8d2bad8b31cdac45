package zkscript;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooKeeper;

/** Remembers what watches, and callbacks of asynchronous calls, said, in order. */
final class EventLog {
    private static final String FENCE = "fence";

    private final BlockingQueue<String> said = new LinkedBlockingQueue<>();
    private final ZooKeeper client;
    private final String fence;

    EventLog(ZooKeeper client, Scene scene) {
        this.client = client;
        this.fence = scene.fence;
    }

    /** A watch whose events show with that tag; changes of state are no events. */
    Watcher watch(String tag) {
        return event -> {
            if (event.getType() != Watcher.Event.EventType.None) {
                say(tag + " " + event.getType() + " " + event.getPath());
            }
        };
    }

    void say(String words) {
        said.add(words);
    }

    /**
     * All events that the server sent before now: they are in once the event of a change
     * made now has come.
     */
    List<String> drain() throws Exception {
        client.exists(fence, event -> {
            if (event.getType() != Watcher.Event.EventType.None) {
                said.add(FENCE);
            }
        });
        Scene.make(client, fence);
        List<String> found = new ArrayList<>();
        while (true) {
            String words = said.poll(Scene.WAIT_S, TimeUnit.SECONDS);
            if (words == null) {
                throw new TimeoutException("no event of the fence");
            }
            if (words.equals(FENCE)) {
                client.delete(fence, -1);
                return found;
            }
            found.add(words);
        }
    }

    String drained() throws Exception {
        return String.join(" | ", drain());
    }

    String drainedSorted() throws Exception {
        List<String> found = drain();
        found.sort(null);
        return String.join(" | ", found);
    }
}
