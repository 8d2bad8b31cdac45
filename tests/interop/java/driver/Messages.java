package driver;

import com.taobao.metamorphosis.Message;

import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.Map;

/** Messages as JSON: "body" in base64, and "attribute" unless there is none. */
final class Messages {
    private Messages() {
    }

    static Message read(String topic, Map<String, String> members) {
        byte[] body = Base64.getDecoder().decode(members.get("body"));
        String attribute = members.get("attribute");
        return attribute == null
                ? new Message(topic, body)
                : new Message(topic, body, attribute);
    }

    static Map<String, Object> write(Message message) {
        Map<String, Object> members = new LinkedHashMap<>();
        members.put("topic", message.getTopic());
        members.put("id", message.getId());
        members.put("body", Base64.getEncoder().encodeToString(message.getData()));
        members.put("attribute", message.hasAttribute() ? message.getAttribute() : null);
        return members;
    }
}
