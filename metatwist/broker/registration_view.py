"""What there is to say about a broker's registration: values and sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import field, frozen

from metatwist.coordination.errors import (
    CoordinationError,
    NotAuthorized,
    NotEmpty,
    TransactionFailed,
)


@frozen
class RegistrationView:
    """How coordination stands, for `status` and the metrics.

    `session_id` is hexadecimal, as ZooKeeper logs it. `repairs` counts by fault what
    was not as it had been left. `last_pass_age_s` is the time since all nodes were last
    read, None before. `duplicate` is the URL of a broker that has our id, `problem`
    why clients do not find this one, or cannot use the coordinator in it. There are
    `other_brokers_count` other brokers; `other_brokers` has the URLs of some by id.
    """

    kind: str = "none"
    description: str = "no coordination"
    state: str = "none"
    session_id: str | None = None
    enabled: bool = False
    registered_nodes: int = 0
    last_pass_age_s: float | None = None
    duplicate: str | None = None
    problem: str | None = None
    repairs: Mapping[str, int] = field(factory=dict)
    other_brokers: Mapping[str, str] = field(factory=dict)
    other_brokers_count: int = 0
    warnings: list[str] = field(factory=list)


def second_broker(number: int, url: str) -> str:
    """Of a second broker in an embedded coordinator (design 4)."""
    return (
        f"broker {number}, {url}, is registered here as well: this coordinator is part"
        " of one broker, and gone while that is down. With more than one broker run a"
        " ZooKeeper ensemble and name it in [zookeeper] zk.zkConnect, with [metatwist]"
        " coordinator=ensemble on all of them"
    )


def more_brokers(count: int) -> str:
    """Of the brokers that `second_broker` is not told of."""
    return f"and {count} more brokers are registered here: who writes in this tree?"


def damaged(damage: Sequence[str]) -> str:
    """Of a coordinator whose database has rows that make no sense."""
    return (
        f"{len(damage)} stored znodes cannot be read and are missing, committed offsets"
        f" perhaps; the first: {damage[0]}"
    )


def unfit_topic(name: str, problem: str) -> str:
    """Of a topic that cannot be a znode."""
    return (
        f"topic {name!r} is not registered, no znode can have this name: it {problem}"
    )


def unreachable(where: str, state: str) -> str:
    """Of a session that is not there."""
    return (
        f"{where} is {state}: nothing can be registered now, those who know the address"
        " are served"
    )


def stalled(where: str, reason: str) -> str:
    """Of an embedded coordinator that cannot store changes."""
    return f"{where}: {reason}; no consumer can commit an offset now"


def failed(
    error: CoordinationError, chroot: str, has_credentials: bool | None = None
) -> str:
    """Of a registration that was refused; paths in the text begin at ZooKeeper's root,
    as its shell wants them. `has_credentials` is None where none are used."""
    cause = error.cause if isinstance(error, TransactionFailed) else error
    path = cause.subject
    if chroot and path.startswith("/"):
        path = chroot + path.replace(", /", f", {chroot}/")
    text = f"registration failed: {cause.says}"
    text = f"{text}: {path}" if path else text
    if isinstance(cause, NotEmpty):
        return (
            f"{text}. Somebody made nodes below it, so it cannot be made anew. To help:"
            f" deleteall {path} (rmr before ZooKeeper 3.5) in its shell, zkCli.sh"
        )
    if isinstance(cause, NotAuthorized) and has_credentials is not None:
        has = "are not those" if has_credentials else "is not set: it takes those"
        return (
            f"{text}. The ACL lets others write there; the credentials in [metatwist]"
            f" zooKeeperAuthFile {has}"
        )
    return text


def taken_id(broker_id: int, mine: str, other: str) -> str:
    """Of another broker with our id."""
    return (
        f"broker id {broker_id} is taken by {other}, so {mine} is not registered and"
        " clients do not find it"
    )
