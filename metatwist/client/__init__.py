"""A Deferred client for MetaQ brokers: `MetaClient`, and all that is used with it.

docs/client.md is the guide. What is not listed here is not for users.
"""

from metatwist.client.broadcast import broadcast_group
from metatwist.client.client import MetaClient
from metatwist.client.consumer import Consumer, ConsumerState
from metatwist.client.delivery.acks import Acks
from metatwist.client.delivery.in_threads import ThreadAcks, in_thread_pool
from metatwist.client.delivery.pulling import PulledBatch
from metatwist.client.delivery.recover_store import RecoverStore
from metatwist.client.delivery.rejection import (
    DeadLetterTopic,
    Drop,
    IRejection,
    PartitionHalted,
    StopPartition,
    origin,
)
from metatwist.client.discovery.address_endpoint import tls_options
from metatwist.client.errors import (
    AckRefused,
    Attempt,
    BadRequest,
    BufferFull,
    ClientError,
    ClientStopped,
    ConnectionLost,
    CorruptRecord,
    DuplicateConsumer,
    Forbidden,
    GroupError,
    InvalidMessage,
    ListenerFailed,
    ListenerTimedOut,
    LocalStoreFailed,
    MessageTooLarge,
    NoPartition,
    NotConnected,
    NothingThere,
    NotOwner,
    OffsetOutOfRange,
    OffsetStorageFailed,
    RequestRefused,
    RequestTimedOut,
    SelectorFailed,
    ServerFailed,
    ServerTimedOut,
    ServerUnavailable,
    UnexpectedReply,
    Where,
    WrongState,
)
from metatwist.client.events import (
    Assigned,
    CommitFailed,
    DeliveryFailed,
    Event,
    FetchFailed,
    FilterFailed,
    GroupTrouble,
    OffsetJumped,
    PartitionStopped,
    Rejected,
    RejectionFailed,
    Revoked,
)
from metatwist.client.hooks import ConsumerHooks
from metatwist.client.local_store import StoreLimits
from metatwist.client.message import (
    Message,
    ReceivedMessage,
    SendResult,
    TopicPartition,
)
from metatwist.client.offsets.coordinator import CoordinatorOffsets
from metatwist.client.offsets.file import FileOffsets
from metatwist.client.offsets.interface import Claim, Commit, IOffsetStorage
from metatwist.client.offsets.memory import MemoryOffsets
from metatwist.client.offsets.sql import SqlOffsets, SqlSettings
from metatwist.client.producing.configured import OrderedSettings
from metatwist.client.producing.one_way import OneWayProducer, OneWaySettings
from metatwist.client.producing.ordered import OrderedProducer
from metatwist.client.producing.producer import Producer
from metatwist.client.producing.selectors import (
    ByKey,
    RandomChoice,
    RoundRobin,
    Selector,
)
from metatwist.client.reading.browser import BrowseLimits, TopicBrowser
from metatwist.client.reading.starting import KeptRange
from metatwist.client.settings import (
    Backoff,
    ClientSettings,
    CommitSettings,
    ConnectionSettings,
    ConsumerSettings,
    DeliverySettings,
    FetchSettings,
    ProducerSettings,
    RecoverySettings,
    Start,
    Strategy,
)
from metatwist.client.statistics import BrokerStats
from metatwist.client.subscriptions import Subscription
from metatwist.coordination.formats import OffsetRecord
from metatwist.coordination.names import PartitionName

__all__ = [
    "AckRefused",
    "Acks",
    "Assigned",
    "Attempt",
    "Backoff",
    "BadRequest",
    "BrokerStats",
    "BrowseLimits",
    "BufferFull",
    "ByKey",
    "Claim",
    "ClientError",
    "ClientSettings",
    "ClientStopped",
    "Commit",
    "CommitFailed",
    "CommitSettings",
    "ConnectionLost",
    "ConnectionSettings",
    "Consumer",
    "ConsumerHooks",
    "ConsumerSettings",
    "ConsumerState",
    "CoordinatorOffsets",
    "CorruptRecord",
    "DeadLetterTopic",
    "DeliveryFailed",
    "DeliverySettings",
    "Drop",
    "DuplicateConsumer",
    "Event",
    "FetchFailed",
    "FetchSettings",
    "FileOffsets",
    "FilterFailed",
    "Forbidden",
    "GroupError",
    "GroupTrouble",
    "IOffsetStorage",
    "IRejection",
    "InvalidMessage",
    "KeptRange",
    "ListenerFailed",
    "ListenerTimedOut",
    "LocalStoreFailed",
    "MemoryOffsets",
    "Message",
    "MessageTooLarge",
    "MetaClient",
    "NoPartition",
    "NotConnected",
    "NotOwner",
    "NothingThere",
    "OffsetJumped",
    "OffsetOutOfRange",
    "OffsetRecord",
    "OffsetStorageFailed",
    "OneWayProducer",
    "OneWaySettings",
    "OrderedProducer",
    "OrderedSettings",
    "PartitionHalted",
    "PartitionName",
    "PartitionStopped",
    "Producer",
    "ProducerSettings",
    "PulledBatch",
    "RandomChoice",
    "ReceivedMessage",
    "RecoverStore",
    "RecoverySettings",
    "Rejected",
    "RejectionFailed",
    "RequestRefused",
    "RequestTimedOut",
    "Revoked",
    "RoundRobin",
    "Selector",
    "SelectorFailed",
    "SendResult",
    "ServerFailed",
    "ServerTimedOut",
    "ServerUnavailable",
    "SqlOffsets",
    "SqlSettings",
    "Start",
    "StopPartition",
    "StoreLimits",
    "Strategy",
    "Subscription",
    "ThreadAcks",
    "TopicBrowser",
    "TopicPartition",
    "UnexpectedReply",
    "Where",
    "WrongState",
    "broadcast_group",
    "in_thread_pool",
    "origin",
    "tls_options",
]
