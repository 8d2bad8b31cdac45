package driver;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

import org.codehaus.jackson.map.ObjectMapper;

/**
 * Steers released MetaQ clients by lines of JSON.
 *
 * <p>A request on standard input names a number, a session and a verb, see {@link
 * Session#perform}. Its one answer on standard output carries the number and a result
 * or an error. Requests of one session run in turn, those of different sessions side by
 * side. Between answers come events: lines with a member "event".
 *
 * <p>When standard input ends, all sessions are shut down and the process ends.
 */
public final class Driver {
    private static final long CLOSE_LIMIT_S = 30;

    private final ObjectMapper json = new ObjectMapper();
    private final Output output;
    private final Map<String, Session> sessions = new LinkedHashMap<>();
    private final Map<String, ExecutorService> turns = new LinkedHashMap<>();

    private Driver(PrintStream lines) {
        this.output = new Output(json, lines);
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream lines = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        // Whatever a library prints must not end up among our lines.
        System.setOut(System.err);
        new Driver(lines).run();
        System.exit(0);
    }

    private void run() throws Exception {
        BufferedReader input =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        output.event("ready", Map.of());
        String line;
        while ((line = input.readLine()) != null) {
            dispatch(new Request(json.readValue(line, Map.class)));
        }
        closeAll();
    }

    private void dispatch(Request request) {
        String name = request.text("session");
        Session session = sessions.computeIfAbsent(name, key -> new Session(key, output));
        turns.computeIfAbsent(name, key -> Executors.newSingleThreadExecutor())
                .execute(() -> answer(session, request));
    }

    private void answer(Session session, Request request) {
        try {
            session.perform(request, result -> output.result(request.number(), result));
        } catch (Throwable error) {
            output.error(request.number(), error);
        }
    }

    private void closeAll() throws InterruptedException {
        for (Map.Entry<String, Session> one : sessions.entrySet()) {
            turns.get(one.getKey()).execute(() -> close(one.getValue()));
        }
        for (ExecutorService turn : turns.values()) {
            turn.shutdown();
            turn.awaitTermination(CLOSE_LIMIT_S, TimeUnit.SECONDS);
        }
    }

    private void close(Session session) {
        try {
            session.close();
        } catch (Throwable error) {
            output.event("failed", Map.of("session", session.name, "error", error.toString()));
        }
    }
}
