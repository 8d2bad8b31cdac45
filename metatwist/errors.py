"""The error tree. Callers branch on type, never on a status number.

`BrokerError` and below are answers: the connection goes on. `ProtocolViolation` is
the peer's fault and closes the connection. `SettingsError` stops a start or a reload.
"""

from __future__ import annotations


class MetatwistError(Exception):
    """Base of all errors that this package raises on purpose."""


class ProtocolViolation(MetatwistError):
    """The peer broke the wire grammar; the connection closes without a reply."""


class BrokerError(MetatwistError):
    """A request failed; `code` is its status on the wire (spec wire-protocol 1.9)."""

    code = 500
    retriable = False


class TopicRefused(BrokerError):
    """No topic of that name is configured, or it is unsafe as a file name."""

    def __init__(self, topic: str) -> None:
        super().__init__(f"The server do not accept topic {topic}")


class WrongPartition(BrokerError):
    """The partition is not one of the topic's."""

    def __init__(self, partition: int) -> None:
        super().__init__(f"wrong partition {partition}")


class PartitionClosed(BrokerError):
    """An operator closed the partition."""

    code = 403
    retriable = True


class PartitionMissing(BrokerError):
    """Nothing is stored for the partition, known topic or not."""

    code = 404

    def __init__(self, topic: str, partition: int) -> None:
        super().__init__(
            f"The topic `{topic}` in partition `{partition}` is not exists"
        )


class PartitionStopped(BrokerError):
    """The partition cannot be used until its disk has been looked after."""


class TransactionUnknown(BrokerError):
    """The key names no transaction that has begun (spec wire-protocol 3.2)."""

    def __init__(self, key: str) -> None:
        kind = "Local" if key.startswith("TX:") else "XA"
        super().__init__(f"{kind} transaction '{key}' has not been started.")


class SettingsError(MetatwistError):
    """The configuration is wrong.

    `problems` lists every fault, each one a sentence that names file, line and key.
    """

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class StorageError(MetatwistError):
    """The data directory cannot be used as it is; the text names the path."""


class DirectoryInUse(StorageError):
    """Another broker holds the lock of the data directory."""


class StartAbandoned(MetatwistError):
    """The broker was told to stop before it had started."""


class DuplicateBroker(MetatwistError):
    """Another broker with the same id is registered and stays."""

    def __init__(self, broker_id: int, mine: str, other: str, path: str) -> None:
        super().__init__(
            f"broker id {broker_id} is taken: {path} says {other}, and this broker is"
            f" {mine}. Clients can't tell two brokers with one id apart: give this one"
            " another [system] brokerId, or stop the other one. If that one is dead,"
            " its session ends by itself soon: start again then"
        )


class AdminError(MetatwistError):
    """An admin verb was refused; the text says why and what would be accepted."""
