package zkscript;

/**
 * A conformance script for ZooKeeper servers, run by Apache's Java client.
 *
 * Prints the transcript of the server at {@code host:port}: a line a step, the same for
 * every server that behaves as ZooKeeper does.
 */
final class ZooKeeperScript {
    private ZooKeeperScript() {}

    interface Play {
        void in(Scene scene) throws Exception;
    }

    private static void play(String name, String address, Play play) throws Exception {
        try (Scene scene = new Scene(name, address)) {
            try {
                play.in(scene);
            } catch (Exception error) {
                scene.note("went wrong", error.toString());
                error.printStackTrace();
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        String address = arguments[0];
        play("creating", address, NodeScenes::creating);
        play("contents", address, NodeScenes::contents);
        play("versions", address, NodeScenes::versions);
        play("children", address, NodeScenes::children);
        play("access", address, NodeScenes::access);
        play("transactions", address, TransactionScenes::committed);
        play("refused transactions", address, TransactionScenes::refused);
        play("pipelined", address, WatchScenes::pipelined);
        play("firing", address, WatchScenes::firing);
        play("event before reply", address, WatchScenes::eventBeforeReply);
        play("watches over a break", address, WatchScenes::overBreak);
        play("resumed", address, SessionScenes::resumed);
        play("too large", address, SessionScenes::tooLarge);
        play("taken over", address, SessionScenes::takenOver);
        play("ended", address, SessionScenes::ended);
        play("expired", address, SessionScenes::expired);
        System.exit(0); // whatever threads a client may have left
    }
}
