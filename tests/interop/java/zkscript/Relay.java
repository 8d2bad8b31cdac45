package zkscript;

import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.ArrayList;
import java.util.List;

/** A TCP relay on loopback; while cut it drops each connection at once. */
final class Relay implements Closeable {
    final String address;
    private final ServerSocket listener;
    private final String host;
    private final int port;
    private final List<Socket> open = new ArrayList<>();
    private boolean isCut;

    Relay(String target) throws IOException {
        host = target.substring(0, target.lastIndexOf(':'));
        port = Integer.parseInt(target.substring(target.lastIndexOf(':') + 1));
        listener = new ServerSocket(0, 50, InetAddress.getByName("127.0.0.1"));
        address = "127.0.0.1:" + listener.getLocalPort();
        start(this::accept);
    }

    private static void start(Runnable work) {
        Thread thread = new Thread(work);
        thread.setDaemon(true);
        thread.start();
    }

    private void accept() {
        while (!listener.isClosed()) {
            try {
                join(listener.accept());
            } catch (IOException error) {
                continue; // the listener was closed, or the server refused
            }
        }
    }

    private synchronized void join(Socket near) throws IOException {
        if (isCut) {
            near.close();
            return;
        }
        Socket far = new Socket(host, port);
        open.add(near);
        open.add(far);
        start(() -> passOn(near, far));
        start(() -> passOn(far, near));
    }

    private static void passOn(Socket source, Socket sink) {
        byte[] buffer = new byte[1 << 16];
        try (source; sink) {
            InputStream in = source.getInputStream();
            OutputStream out = sink.getOutputStream();
            for (int count = in.read(buffer); count > 0; count = in.read(buffer)) {
                out.write(buffer, 0, count);
            }
        } catch (IOException error) {
            return; // both ends are closed now
        }
    }

    synchronized void cut() throws IOException {
        isCut = true;
        for (Socket end : open) {
            end.close();
        }
        open.clear();
    }

    synchronized void heal() {
        isCut = false;
    }

    @Override
    public void close() throws IOException {
        cut();
        listener.close();
    }
}
