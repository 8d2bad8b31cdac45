"""Where MetaQ keeps what in the tree of znodes (spec layout 3).

Every path of it is a method of `Layout`; nothing else builds one.
"""

from __future__ import annotations

from enum import Enum

from attrs import field, frozen

from metatwist.coordination.names import (
    NodeName,
    PartitionName,
    path_element_problem,
)

DEFAULT_ROOT = "/meta"


class TopicTree(Enum):
    """The three trees that brokers register topics in.

    OLD is for clients before 1.4.3 and foreign ones, PUBLISH for producers, SUBSCRIBE
    for consumers.
    """

    OLD = "topics"
    PUBLISH = "topics-pub"
    SUBSCRIBE = "topics-sub"


def normalise_root(text: str) -> str:
    """`meta`, `/meta` and `/meta/` are `/meta`; `/` is the empty prefix (spec layout
    1.2)."""
    rooted = text if text.startswith("/") else "/" + text
    return rooted.removesuffix("/")


def _check_root(_layout: object, _field: object, root: str) -> None:
    for name in root.split("/")[1:]:
        _checked(name)


def _checked(name: str) -> str:
    problem = path_element_problem(name)
    if problem is not None:
        raise ValueError(f"{name!r} {problem}")
    return name


@frozen
class Layout:
    """The paths below a root, which is normalised first.

    A name that cannot be an element of a path raises ValueError, here and in every
    method: check what comes from outside with `is_path_element`.
    """

    root: str = field(
        default=DEFAULT_ROOT, converter=normalise_root, validator=_check_root
    )

    def _path(self, *names: str) -> str:
        return "/".join((self.root, *map(_checked, names)))

    # -- brokers ----------------------------------------------------------------

    def brokers(self) -> str:
        """The directory of everything that brokers write."""
        return self._path("brokers")

    def brokers_ids(self) -> str:
        """The directory of brokers. Its children must be decimal numbers: a stray
        name stops every Java consumer (spec layout 3.2)."""
        return self._path("brokers", "ids")

    def broker(self, broker_id: int) -> str:
        """A broker's directory, with its URL for very old clients; stays for ever."""
        return self._path("brokers", "ids", str(broker_id))

    def master(self, broker_id: int) -> str:
        """The URL of a living master, ephemeral."""
        return self._path("brokers", "ids", str(broker_id), "master")

    def slave(self, broker_id: int, number: int) -> str:
        """The URL of a living asynchronous slave, ephemeral."""
        return self._path("brokers", "ids", str(broker_id), f"slave{number}")

    def checksum(self, broker_id: int) -> str:
        """The checksum of a master's configuration, ephemeral."""
        name = "master_config_checksum"
        return self._path("brokers", "ids", str(broker_id), name)

    # -- topics -----------------------------------------------------------------

    def topics(self, tree: TopicTree) -> str:
        """The directory of topics of a tree."""
        return self._path("brokers", tree.value)

    def topic_dir(self, tree: TopicTree, topic: str) -> str:
        """The directory of the brokers that offer a topic."""
        return self._path("brokers", tree.value, topic)

    def topic_node(self, tree: TopicTree, topic: str, node: NodeName | str) -> str:
        """A broker's registration for a topic, ephemeral."""
        return self._path("brokers", tree.value, topic, str(node))

    # -- consumers --------------------------------------------------------------

    def groups(self) -> str:
        """The directory of consumer groups."""
        return self._path("consumers")

    def group(self, group: str) -> str:
        """A consumer group's directory."""
        return self._path("consumers", group)

    def members(self, group: str) -> str:
        """The directory of a group's living consumers."""
        return self._path("consumers", group, "ids")

    def member(self, group: str, consumer: str) -> str:
        """A consumer's topics, ephemeral."""
        return self._path("consumers", group, "ids", consumer)

    def owners(self, group: str) -> str:
        """The directory of topics with partitions that somebody owns."""
        return self._path("consumers", group, "owners")

    def owners_of(self, group: str, topic: str) -> str:
        """The directory of a topic's owned partitions."""
        return self._path("consumers", group, "owners", topic)

    def owner(self, group: str, topic: str, partition: PartitionName | str) -> str:
        """The consumer id of a partition's owner, ephemeral."""
        return self._path("consumers", group, "owners", topic, str(partition))

    def offsets(self, group: str) -> str:
        """The directory of topics with committed offsets."""
        return self._path("consumers", group, "offsets")

    def offsets_of(self, group: str, topic: str) -> str:
        """The directory of a topic's committed offsets."""
        return self._path("consumers", group, "offsets", topic)

    def offset(self, group: str, topic: str, partition: PartitionName | str) -> str:
        """A partition's committed offset record, persistent."""
        return self._path("consumers", group, "offsets", topic, str(partition))
