package zkscript;

import java.util.ArrayList;
import java.util.List;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher;

/** The states that a client went through, as its default watcher. */
final class States implements Watcher {
    private final List<String> seen = new ArrayList<>();

    @Override
    public synchronized void process(WatchedEvent event) {
        if (event.getType() == Event.EventType.None) {
            seen.add(event.getState().name());
            notifyAll();
        }
    }

    /** Return once that state was seen; it and those before it are then forgotten. */
    synchronized String waitFor(String state) throws InterruptedException {
        long deadline = System.currentTimeMillis() + Scene.WAIT_S * 1000L;
        while (!seen.contains(state)) {
            long left = deadline - System.currentTimeMillis();
            if (left <= 0) {
                throw new IllegalStateException(state + " did not come, but " + seen);
            }
            wait(left);
        }
        List<String> past = new ArrayList<>(seen.subList(0, seen.indexOf(state) + 1));
        seen.subList(0, past.size()).clear();
        return String.join(" ", past);
    }
}
