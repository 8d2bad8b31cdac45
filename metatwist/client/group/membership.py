"""A consumer's life in its group, shared with Java consumers (spec client 9, 10).

    IDLE -> JOINING -> MEMBER -> LEAVING -> LEFT

An expired session is no end of it: what was held is lost, and all goes on in the next
one. What could not be deleted in leaving is deleted later, for as long as its session
lives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from twisted.internet.defer import Deferred, fail, inlineCallbacks
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from metatwist.client.errors import (
    ClientError,
    DuplicateConsumer,
    GroupError,
    NotConnected,
)
from metatwist.client.group.identity import unique_id
from metatwist.client.group.lease import Lease
from metatwist.client.group.owner_nodes import OwnerNodes
from metatwist.client.group.rebalancing import Limits, Place, Rebalancing
from metatwist.client.group.registration import MemberNode, Registration
from metatwist.client.group.rounds import Rounds
from metatwist.client.group.view import GroupPicture, GroupReader
from metatwist.client.group.waiting import Conditions, within
from metatwist.client.interfaces import IAssignment
from metatwist.client.message import TopicPartition
from metatwist.client.settings import ConsumerSettings
from metatwist.coordination.formats import encode_topics
from metatwist.coordination.interface import SessionState
from metatwist.coordination.layout import Layout
from metatwist.coordination.names import consumer_id, path_element_problem

LEAVE_LIMIT_S = 5.0
FIRST_TAKE_LIMIT_S = 10.0
"""How long joining waits for a holder that is slow to begin: it goes on by itself."""
MOST_READINGS = 3
"""In a row, for a picture that is not old when it is done; then an old one has to do:
owner nodes keep it safe."""


class MembershipState(Enum):
    """See the module."""

    IDLE = "idle"
    JOINING = "joining"
    MEMBER = "member"
    LEAVING = "leaving"
    LEFT = "left"


_ACTIVE = (MembershipState.JOINING, MembershipState.MEMBER)


@implementer(IAssignment)
class GroupMembership:
    """IAssignment by a group.

    `session_timeout_s` is what was asked of the coordinator; `seconds` a
    clock that is never set (`lease.steady_seconds`), the reactor's unless given.

    Attributes:
        consumer: `<group>_<unique>`.
        state: where in its life it is.
    """

    _log = Logger()

    def __init__(
        self,
        reactor: Any,
        coordinator: Any,
        layout: Layout,
        settings: ConsumerSettings,
        session_timeout_s: float,
        seconds: Callable[[], float] | None = None,
    ) -> None:
        unique = settings.consumer_id or unique_id()
        self.consumer = consumer_id(settings.group, unique)
        self.state = MembershipState.IDLE
        self._clock = reactor
        self._coordinator = coordinator
        self._layout = layout
        self._settings = settings
        self._timeout_s = session_timeout_s
        self._session_id = 0
        self._holder: Any = None
        self._started: Deferred[None] | None = None
        self._is_told_of_other = False
        self._missing: set[str] = set()
        self._conditions = Conditions()
        self._rounds = Rounds(reactor, self._round)
        lease = Lease(
            reactor, coordinator, session_timeout_s, seconds or reactor.seconds
        )
        nodes = OwnerNodes(coordinator, layout, settings.group, self.consumer)
        self._lease = lease
        self._rebalancing = Rebalancing(
            reactor,
            coordinator,
            Place(self.consumer, nodes, lease),
            Limits(settings.stop_timeout_s, session_timeout_s),
            self._may_claim,
        )
        self._stop_listening: Callable[[], None] = _nothing
        self._registration: Any = None
        self._reader: Any = None

    @property
    def held(self) -> frozenset[TopicPartition]:
        """What is ours now."""
        return self._rebalancing.held

    @property
    def contested(self) -> Mapping[TopicPartition, str]:
        """Who has what should be ours, by consumer id."""
        return self._rebalancing.contested

    # -- joining ---------------------------------------------------------------------

    def start(self, holder: Any, topics: frozenset[str]) -> Deferred[None]:
        """Join; fires when registered and each partition of ours is being read or is
        still another's; a holder that is slow is not waited for.

        Fails with DuplicateConsumer, with GroupError for topics that cannot be
        subscribed to, and when it is stopped before: with NotConnected if there is no
        connection to the coordinator, else GroupError. Cancelling stops it.
        """
        if self.state is not MembershipState.IDLE:
            return fail(GroupError(f"{self.consumer} was started before"))
        problem = _problem_with(topics)
        if problem is not None:
            return fail(GroupError(problem))
        self.state = MembershipState.JOINING
        self._holder = holder
        self._registration = Registration(
            self._clock,
            self._coordinator,
            MemberNode(
                self._layout.member(self._settings.group, self.consumer),
                encode_topics(topics),
            ),
            self._timeout_s,
            self._rounds.request,
        )
        self._reader = GroupReader(
            self._coordinator,
            self._layout,
            self._settings.group,
            topics,
            self._rounds.request,
        )
        started: Deferred[None] = Deferred(self._cancelled)
        self._started = started
        self._begin()
        return started

    def _cancelled(self, _: Deferred[None]) -> None:
        self.stop()

    def _begin(self) -> None:
        self._session_id = self._coordinator.session_id
        self._stop_listening = self._coordinator.on_state(self._state_changed)
        self._rebalancing.start(self._holder)
        self._lease.start(self._contact, self._holder.doubt)
        self._rounds.start()

    def _state_changed(self, state: SessionState) -> None:
        if self.state is MembershipState.IDLE:
            return
        now_in: int = self._coordinator.session_id
        before, self._session_id = self._session_id, now_in
        if before not in (0, now_in):
            self._rebalancing.session_over()
            self._registration.session_over()
            if self.state is MembershipState.LEFT:  # and so is all that was left
                self._stop_listening()
        if state is SessionState.CONNECTED and self.state in _ACTIVE:
            self._registration.wait_anew()
            self._lease.look()
            self._rounds.request(full=before != now_in)

    def _contact(self) -> Deferred[Any]:
        checked: Deferred[Any] = self._registration.check()
        return checked

    def _may_claim(self) -> bool:
        registered: bool = self.state in _ACTIVE and self._registration.is_registered
        return registered

    # -- rounds ----------------------------------------------------------------------

    @inlineCallbacks
    def _round(self, full: bool) -> Any:
        """Look who is there and what there is; change what is ours accordingly."""
        if not self._is_at_work():
            return
        if full:
            self._reader.forget()
            self._rebalancing.verify()
        if not self._registration.is_registered:
            yield self._register()
        if not self._is_at_work():
            return
        if not self._registration.is_registered and not self.held:
            return
        picture = yield self._picture()
        if not self._is_at_work():
            return
        if self.consumer not in picture.members:
            if self._registration.is_registered:
                self._reader.forget()
                self._registration.doubt()
            self._rounds.request()  # whatever was asked is taken up already
            return
        self._rebalancing.want(picture.share(self.consumer, self._settings.strategy))
        self._tell_missing(picture)
        if self.state is MembershipState.JOINING:
            self._joined()

    def _tell_missing(self, picture: GroupPicture) -> None:
        """Topics that no broker offers, once each until they come."""
        missing = {name for name, its in picture.partitions.items() if not its}
        for topic in sorted(missing - self._missing):
            self._holder.trouble(f"no broker offers the topic {topic}")
        self._missing = missing

    def _is_at_work(self) -> bool:
        is_connected = self._coordinator.state is SessionState.CONNECTED
        return is_connected and self.state in _ACTIVE

    @inlineCallbacks
    def _register(self) -> Any:
        registration, sent_s = self._registration, self._lease.seconds()
        session_id = self._coordinator.session_id
        is_ours = yield registration.register()
        if is_ours:
            self._is_told_of_other = False
            self._lease.prove(session_id, sent_s)
        elif registration.is_contested_for_good and self.state in _ACTIVE:
            self._is_another()

    def _is_another(self) -> None:
        if self._registration.was_registered:
            if not self._is_told_of_other:
                self._is_told_of_other = True
                self._holder.trouble(
                    f"another consumer has the id {self.consumer}: nothing new is"
                    " claimed until it has gone"
                )
            return
        error = DuplicateConsumer(
            f"a living consumer of the group {self._settings.group} has the id"
            f" {self.consumer}"
        )
        started, self._started = self._started, None
        stopped = self.stop()
        if started is not None:
            stopped.addCallback(lambda _: started.errback(error))

    @inlineCallbacks
    def _picture(self) -> Any:
        for _ in range(MOST_READINGS):
            self._rounds.take_up()
            picture = yield self._reader.read()
            if not self._rounds.asked:
                break
        return picture

    def _joined(self) -> None:
        self.state = MembershipState.MEMBER
        settled = within(self._clock, FIRST_TAKE_LIMIT_S, self._rebalancing.settled())
        settled.addCallback(self._tell_joined)

    def _tell_joined(self, _: bool) -> None:
        started, self._started = self._started, None
        if started is not None:
            started.callback(None)

    # -- leaving ---------------------------------------------------------------------

    def stop(self) -> Deferred[None]:
        """Give up everything and leave; fires when that is so, however often it is
        called. It takes up to two `stop_timeout_s` for the holder and twice
        LEAVE_LIMIT_S for the coordinator, which is not waited for when it is away.
        Cancelling stops this wait alone."""
        if self.state is MembershipState.IDLE:
            self.state = MembershipState.LEFT
        elif self.state in _ACTIVE:
            self.state = MembershipState.LEAVING
            self._leave().addErrback(self._left_badly)
            self._fail_start()
        return self._conditions.when(lambda: self.state is MembershipState.LEFT)

    def _fail_start(self) -> None:
        started, self._started = self._started, None
        if started is None:
            return
        error: ClientError = GroupError(f"stopped before {self.consumer} had joined")
        if self._coordinator.state is not SessionState.CONNECTED:
            error = NotConnected(
                f"no connection to the coordinator, {self._coordinator.description}"
            )
        started.errback(error)

    @inlineCallbacks
    def _leave(self) -> Any:
        self._rounds.stop()
        self._rebalancing.want(())
        limit_s = 2 * self._settings.stop_timeout_s
        if not (yield within(self._clock, limit_s, self._rebalancing.stopped())):
            self._rebalancing.abandon()
        freed = yield self._while_connected(self._rebalancing.left())
        gone = yield self._while_connected(self._registration.withdraw())
        self._reader.forget()
        self._lease.stop()
        self.state = MembershipState.LEFT
        if freed and gone:
            self._stop_listening()
        self._conditions.check()

    @inlineCallbacks
    def _while_connected(self, leaving: Deferred[Any]) -> Any:
        """Wait a little if the others can be told at all; it goes on in any case."""
        is_connected = self._coordinator.state is SessionState.CONNECTED
        limit_s = LEAVE_LIMIT_S if is_connected else 0
        return (yield within(self._clock, limit_s, leaving))

    def _left_badly(self, failure: Failure) -> None:
        self._log.failure("leaving a group failed", failure=failure)
        self.state = MembershipState.LEFT
        self._conditions.check()


def _nothing() -> None:
    """Nobody listens yet."""


def _problem_with(topics: frozenset[str]) -> str | None:
    for topic in sorted(topics):
        problem = path_element_problem(topic)
        if problem is not None:
            return f"the topic {topic!r} {problem}"
        if not topic.strip() or "," in topic:
            return f"the topic {topic!r} cannot be listed: it is blank or has a comma"
    return None
