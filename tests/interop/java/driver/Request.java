package driver;

import java.util.List;
import java.util.Map;

/** One request; a missing or mistyped member is an IllegalArgumentException. */
final class Request {
    private final Map<?, ?> members;

    Request(Map<?, ?> members) {
        this.members = members;
    }

    int number() {
        return (int) integer("number");
    }

    boolean has(String name) {
        return members.get(name) != null;
    }

    String text(String name) {
        return of(String.class, name);
    }

    long integer(String name) {
        return of(Number.class, name).longValue();
    }

    @SuppressWarnings("unchecked")
    List<String> texts(String name) {
        return of(List.class, name);
    }

    @SuppressWarnings("unchecked")
    List<Map<String, String>> messages() {
        return of(List.class, "messages");
    }

    private <T> T of(Class<T> kind, String name) {
        Object value = members.get(name);
        if (!kind.isInstance(value)) {
            throw new IllegalArgumentException(
                    "member " + name + " should be a " + kind.getSimpleName() + ": " + members);
        }
        return kind.cast(value);
    }
}
