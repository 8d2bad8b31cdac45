"""The keys of `[metatwist]` that say where clients find the broker."""

from __future__ import annotations

from metatwist.broker.settings.key import Key

COORDINATORS = ("embedded", "ensemble", "none")
ACLS = ("open", "creator")

COORDINATION = (
    Key(
        name="coordinator",
        field="coordinator",
        kind="choice",
        help=(
            "where clients find the broker: `embedded` keeps the znodes in this"
            " process, `ensemble` joins a ZooKeeper, `none` does without"
        ),
        default_note="`ensemble` when `[zookeeper]` has keys, else `embedded`",
        choices=COORDINATORS,
    ),
    Key(
        name="coordinatorEndpoint",
        field="coordinator_endpoint",
        kind="endpoint",
        help="where the embedded coordinator serves ZooKeeper clients",
        default="tcp:2181:interface=127.0.0.1",
    ),
    Key(
        name="coordinatorPath",
        field="coordinator_path",
        kind="path",
        help="directory of the embedded coordinator's database",
        default_note="`dataPath` with `.coordinator` behind",
    ),
    Key(
        name="reconcileInterval",
        field="reconcile_interval_s",
        kind="int",
        help="seconds between two comparisons of what is registered with what should",
        default="10",
        reload="yes",
        least=1,
    ),
    Key(
        name="zooKeeperAuthFile",
        field="zookeeper_auth_file",
        kind="path",
        help="file with one line `digest:USER:PASSWORD` for the ensemble",
        default_note="no authentication",
    ),
    Key(
        name="zooKeeperAcl",
        field="zookeeper_acl",
        kind="choice",
        help=(
            "who may change what is registered: `open` everybody, `creator` who has"
            " the credentials of `zooKeeperAuthFile`, all others read"
        ),
        default="open",
        choices=ACLS,
    ),
)
