package driver;

import java.io.IOException;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.LinkedHashMap;
import java.util.Map;

import org.codehaus.jackson.map.ObjectMapper;

/** Lines of JSON on standard output, from any thread. */
final class Output {
    private final ObjectMapper json;
    private final PrintStream lines;

    Output(ObjectMapper json, PrintStream lines) {
        this.json = json;
        this.lines = lines;
    }

    void result(int number, Object result) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("number", number);
        line.put("result", result);
        write(line);
    }

    void error(int number, Throwable error) {
        StringWriter trace = new StringWriter();
        error.printStackTrace(new PrintWriter(trace));
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("number", number);
        line.put("error", error.toString());
        line.put("trace", trace.toString());
        write(line);
    }

    void event(String kind, Map<String, ?> members) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("event", kind);
        line.putAll(members);
        write(line);
    }

    private void write(Map<String, Object> line) {
        String text;
        try {
            text = json.writeValueAsString(line);
        } catch (IOException error) {
            throw new IllegalStateException("cannot be written as JSON: " + line, error);
        }
        synchronized (lines) {
            lines.print(text + "\n");
            lines.flush();
        }
    }
}
