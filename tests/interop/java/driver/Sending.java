package driver;

import com.taobao.metamorphosis.Message;
import com.taobao.metamorphosis.client.producer.MessageProducer;
import com.taobao.metamorphosis.client.producer.SendMessageCallback;
import com.taobao.metamorphosis.client.producer.SendResult;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;

/** Sends a list of messages; each has an outcome of its own, an exception being one. */
final class Sending {
    private final MessageProducer producer;
    private final List<Message> messages = new ArrayList<>();
    private final long timeoutMs;

    Sending(MessageProducer producer, Request request) {
        this.producer = producer;
        this.timeoutMs = request.integer("timeoutMs");
        for (Map<String, String> one : request.messages()) {
            messages.add(Messages.read(request.text("topic"), one));
        }
    }

    /** Send one after the other, each once the one before was answered. */
    List<Object> inTurn() {
        List<Object> outcomes = new ArrayList<>();
        for (Message one : messages) {
            try {
                SendResult result = producer.sendMessage(one, timeoutMs, TimeUnit.MILLISECONDS);
                outcomes.add(outcome(one, result));
            } catch (Exception error) {
                outcomes.add(outcome(error));
            }
        }
        return outcomes;
    }

    /** Send all at once, and hand on the outcomes when the last callback was called. */
    void withCallback(Consumer<Object> answer) {
        Object[] outcomes = new Object[messages.size()];
        AtomicInteger missing = new AtomicInteger(outcomes.length);
        for (int index = 0; index < outcomes.length; index++) {
            int place = index;
            Message message = messages.get(index);
            Consumer<Object> keep = outcome -> {
                outcomes[place] = outcome;
                if (missing.decrementAndGet() == 0) {
                    answer.accept(Arrays.asList(outcomes));
                }
            };
            producer.sendMessage(
                    message, new Callback(message, keep), timeoutMs, TimeUnit.MILLISECONDS);
        }
        if (outcomes.length == 0) {
            answer.accept(List.of());
        }
    }

    private static Map<String, Object> outcome(Message message, SendResult result) {
        Map<String, Object> members = new LinkedHashMap<>();
        members.put("success", result.isSuccess());
        members.put("id", message.getId());
        members.put(
                "partition",
                result.getPartition() == null ? null : result.getPartition().toString());
        members.put("offset", result.getOffset());
        members.put("error", result.getErrorMessage());
        return members;
    }

    private static Map<String, Object> outcome(Throwable error) {
        Map<String, Object> members = new LinkedHashMap<>();
        members.put("success", false);
        members.put("id", 0);
        members.put("partition", null);
        members.put("offset", -1);
        members.put("error", error.toString());
        return members;
    }

    private static final class Callback implements SendMessageCallback {
        private final Message message;
        private final Consumer<Object> keep;

        Callback(Message message, Consumer<Object> keep) {
            this.message = message;
            this.keep = keep;
        }

        @Override
        public void onMessageSent(SendResult result) {
            keep.accept(outcome(message, result));
        }

        @Override
        public void onException(Throwable error) {
            keep.accept(outcome(error));
        }
    }
}
