"""All keys of `server.ini`, one row each (spec configuration 3 to 5).

A key of our own goes into `METATWIST`, with a field of the same meaning in
`model.BrokerSettings` and a line in `load`; the table in docs/configuration.md is
compared with this one by a test.
"""

from __future__ import annotations

from collections.abc import Mapping

from metatwist.broker.settings.coordination_keys import COORDINATION
from metatwist.broker.settings.key import Key
from metatwist.broker.settings.system_keys import SYSTEM

__all__ = ["INTERNAL", "METATWIST", "SECTIONS", "SYSTEM", "TOPIC", "ZOOKEEPER"]

ZOOKEEPER = (
    Key(
        name="zk.zkConnect",
        field="connect",
        kind="string",
        help="servers as `host:port,host:port`, with an optional `/chroot` behind",
        default="localhost:2181",
    ),
    Key(
        name="zk.zkSessionTimeoutMs",
        field="session_timeout_ms",
        kind="int",
        help="session timeout, in ms",
        default="30000",
        least=1,
    ),
    Key(
        name="zk.zkConnectionTimeoutMs",
        field="connection_timeout_ms",
        kind="int",
        help="the longest that one request to ZooKeeper may take, in ms",
        default="30000",
        least=1,
    ),
    Key(
        name="zk.zkSyncTimeMs",
        field="sync_time_ms",
        kind="int",
        help="how far ZooKeeper servers may lag behind each other, in ms",
        default="5000",
        least=0,
    ),
    Key(
        name="zk.zkEnable",
        field="enable",
        kind="bool",
        help="register the broker and its topics",
        default="true",
    ),
    Key(
        name="zk.zkRoot",
        field="root",
        kind="string",
        help="node above all others; `/` for none",
        default="/meta",
    ),
)

METATWIST = (
    Key(
        name="brokerEndpoint",
        field="broker_endpoint",
        kind="endpoint",
        help="where to listen, as a Twisted server endpoint; its port wins",
        default_note="`tcp:<serverPort>` on all interfaces",
    ),
    Key(
        name="idleTimeout",
        field="idle_timeout_s",
        kind="int",
        help="seconds without traffic after which a connection is closed; 0 never",
        default="300",
        reload="yes",
        least=0,
    ),
    Key(
        name="maxHeaderBytes",
        field="max_header_bytes",
        kind="int",
        help="longest command line that is read",
        default="65536",
        least=256,
    ),
    Key(
        name="maxMessageBytes",
        field="max_message_bytes",
        kind="int",
        help="largest message, attribute included, that is accepted",
        default="16777216",
        reload="yes",
        least=1,
    ),
    Key(
        name="maxPendingBytes",
        field="max_pending_bytes",
        kind="long",
        help="bytes waiting for the disk, whole broker, past which reading stops",
        default="33554432",
        reload="yes",
        least=1,
    ),
    Key(
        name="maxConnections",
        field="max_connections",
        kind="int",
        help="connections at once; more are closed as they come",
        default="10000",
        reload="yes",
        least=1,
    ),
    Key(
        name="maxPollWaitMs",
        field="max_poll_wait_ms",
        kind="int",
        help="the longest that a poll waits for data, in ms; 0 answers polls at once",
        default="30000",
        reload="yes",
        least=0,
        most=600_000,
    ),
    Key(
        name="maxWaitingPolls",
        field="max_waiting_polls",
        kind="int",
        help="polls of one connection that may wait; more are answered as they come",
        default="10000",
        reload="yes",
        least=0,
    ),
    Key(
        name="maxOpenSegments",
        field="max_open_segments",
        kind="int",
        help="most segment files held open at once",
        default="512",
        least=1,
    ),
    Key(
        name="retentionBytes",
        field="retention_bytes",
        kind="long",
        help="bytes that a partition keeps at most; 0 is no bound",
        default="0",
        reload="yes",
        least=0,
    ),
    Key(
        name="retentionBytes.",
        field="retention_bytes",
        kind="long",
        help="the same for one topic section, named behind the dot",
        default_note="`retentionBytes`",
        per_value=True,
        reload="yes",
        least=0,
    ),
    Key(
        name="syncThreads",
        field="sync_threads",
        kind="int",
        help="threads that fsync partitions",
        default="4",
        least=1,
        most=64,
    ),
    Key(
        name="controlSocket",
        field="control_socket",
        kind="bool",
        help="open the local socket that the admin commands use",
        default="true",
    ),
    Key(
        name="inlineSync",
        field="inline_sync",
        kind="bool",
        help="fsync a lone put at once while the disk is quick",
        default="true",
    ),
    *COORDINATION,
)

TOPIC = (
    *(key for key in SYSTEM if key.per_topic),
    Key(
        name="group.",
        field="filters",
        kind="string",
        help="dotted name of the filter of one consumer group, named behind the dot",
        default_note="no filter",
        per_value=True,
        reload="yes",
    ),
)
"""Keys of a topic section; one that is left out has the value of `[system]`."""

SECTIONS: Mapping[str, tuple[Key, ...]] = {
    "system": SYSTEM,
    "zookeeper": ZOOKEEPER,
    "metatwist": METATWIST,
}
"""The sections with a fixed name."""

_INNER_NAMES = frozenset(
    {
        "topics",
        "topicConfigMap",
        "slaveConfig",
        "zkConfig",
        "path",
        "lastModified",
        "configFileChecksum",
        "closedPartitionMap",
        "propertyChangeSupport",
        "log",
        "serialVersionUID",
    }
)
INTERNAL: Mapping[str, frozenset[str]] = {
    "system": _INNER_NAMES,
    "zookeeper": _INNER_NAMES | {key.name for key in SYSTEM},
    "metatwist": frozenset(),
    "topic": frozenset({"topic", "filterClassNames"}),
}
"""Names that a Java broker takes without a word and ignores (spec configuration 2)."""
