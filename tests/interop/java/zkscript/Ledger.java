package zkscript;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.OpResult;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Stat;

/**
 * Answers as text that is the same for every server that behaves as ZooKeeper does.
 *
 * A zxid is named when it is first met; one below another met before is named with its
 * place, as z5&lt;z2. Sessions have the names that the scene gives them.
 */
final class Ledger {
    private static final int LONGEST_SHOWN_BYTES = 60;
    private static final long FAR_MS = 60_000;

    private final TreeMap<Long, String> zxids = new TreeMap<>();
    private final Map<Long, String> sessions = new TreeMap<>();

    void nameSession(long id, String name) {
        sessions.put(id, name);
    }

    String zxid(long value) {
        if (value == 0 || value == -1) {
            return Long.toString(value);
        }
        String known = zxids.get(value);
        if (known == null) {
            Map.Entry<Long, String> above = zxids.higherEntry(value);
            known = "z" + (zxids.size() + 1);
            if (above != null) {
                known += "<" + above.getValue().split("<")[0];
            }
            zxids.put(value, known);
        }
        return known;
    }

    String session(long id) {
        return id == 0 ? "none" : sessions.getOrDefault(id, "unknown");
    }

    /** Any answer of the client's; lists of names come sorted. */
    String show(Object value) {
        if (value instanceof Stat) {
            return stat((Stat) value);
        }
        if (value instanceof byte[]) {
            return bytes((byte[]) value);
        }
        if (value instanceof ACL) {
            ACL acl = (ACL) value;
            return acl.getPerms() + ":" + acl.getId().getScheme() + ":"
                    + acl.getId().getId();
        }
        if (value instanceof OpResult) {
            return result((OpResult) value);
        }
        if (value instanceof KeeperException) {
            KeeperException.Code code = ((KeeperException) value).code();
            return code + "(" + code.intValue() + ")";
        }
        if (value instanceof List) {
            return list((List<?>) value);
        }
        return String.valueOf(value);
    }

    private String list(List<?> values) {
        List<String> shown = new ArrayList<>();
        boolean named = true;
        for (Object one : values) {
            named = named && one instanceof String;
            shown.add(show(one));
        }
        if (named) {
            Collections.sort(shown);
        }
        return shown.toString();
    }

    private String stat(Stat stat) {
        return "[czxid=" + zxid(stat.getCzxid()) + " mzxid=" + zxid(stat.getMzxid())
                + " pzxid=" + zxid(stat.getPzxid()) + " v=" + stat.getVersion()
                + " cv=" + stat.getCversion() + " av=" + stat.getAversion()
                + " len=" + stat.getDataLength() + " kids=" + stat.getNumChildren()
                + " owner=" + session(stat.getEphemeralOwner()) + " " + times(stat) + "]";
    }

    private static String times(Stat stat) {
        boolean far = Math.abs(stat.getMtime() - System.currentTimeMillis()) > FAR_MS;
        if (far || stat.getMtime() < stat.getCtime()) {
            return "ctime=" + stat.getCtime() + " mtime=" + stat.getMtime();
        }
        if (stat.getVersion() > 0) {
            return "mtime>=ctime";
        }
        return stat.getMtime() == stat.getCtime() ? "mtime=ctime" : "mtime>ctime";
    }

    private static String bytes(byte[] value) {
        if (value.length > LONGEST_SHOWN_BYTES) {
            int sum = 0;
            for (byte one : value) {
                sum = 31 * sum + one;
            }
            return "<" + value.length + " bytes " + Integer.toHexString(sum) + ">";
        }
        return "'" + new String(value, StandardCharsets.ISO_8859_1) + "'";
    }

    private String result(OpResult result) {
        if (result instanceof OpResult.CreateResult) {
            return "create " + ((OpResult.CreateResult) result).getPath();
        }
        if (result instanceof OpResult.SetDataResult) {
            return "set " + stat(((OpResult.SetDataResult) result).getStat());
        }
        if (result instanceof OpResult.ErrorResult) {
            return "error " + ((OpResult.ErrorResult) result).getErr();
        }
        return result.getClass().getSimpleName();
    }
}
