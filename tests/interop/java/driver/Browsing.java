package driver;

import com.taobao.metamorphosis.Message;
import com.taobao.metamorphosis.client.MetaMessageSessionFactory;
import com.taobao.metamorphosis.client.TopicBrowser;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** Reads a topic with the topic browser. */
final class Browsing {
    private Browsing() {
    }

    /** All messages of the topic, in the order in which the browser gives them. */
    static List<Object> all(MetaMessageSessionFactory factory, Request request) throws Exception {
        TopicBrowser browser =
                factory.createTopicBrowser(
                        request.text("topic"),
                        (int) request.integer("maxSize"),
                        request.integer("timeoutMs"),
                        TimeUnit.MILLISECONDS);
        try {
            List<Object> found = new ArrayList<>();
            Iterator<Message> messages = browser.iterator();
            while (messages.hasNext()) {
                found.add(Messages.write(messages.next()));
            }
            return found;
        } finally {
            browser.shutdown();
        }
    }
}
