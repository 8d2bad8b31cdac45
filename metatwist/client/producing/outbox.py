"""All that one producer has under way."""

from __future__ import annotations

from twisted.logger import Logger

from metatwist.client.errors import (
    ClientError,
    ClientStopped,
    InvalidMessage,
    Where,
)
from metatwist.client.interfaces import PublishRoutes
from metatwist.client.message import Message, SendResult
from metatwist.client.producing.lanes import ProducerContext, TopicLanes
from metatwist.client.producing.payload import payload_of, topic_problem
from metatwist.client.producing.room import Counters, Room
from metatwist.client.producing.selectors import Selector
from metatwist.client.producing.send import Outcome, Parcel, Send
from metatwist.client.producing.waves import Waves
from metatwist.client.settings import ProducerSettings


class Outbox:
    """The topics a producer follows, the room it has and the messages in it."""

    _log = Logger()

    def __init__(
        self, settings: ProducerSettings, selector: Selector, context: ProducerContext
    ) -> None:
        self.settings = settings
        self.selector = selector
        self.stable: bool = getattr(selector, "stable", False)
        self.may_duplicate = settings.may_duplicate
        self.clock = context.clock
        self.counters = Counters()
        self.room = Room(settings.most_buffered_bytes)
        self.stopping = False
        self.default_topic: str | None = None
        self._context = context
        self._topics: dict[str, TopicLanes] = {}
        self._followed: list[str] = []
        self.waves: Waves[Send] = Waves()
        self._stop_listening = context.discovery.on_routes(self._routes_changed)

    # -- topics ------------------------------------------------------------------------

    def lanes(self, topic: str) -> TopicLanes:
        """Of a topic, which is followed from now on; without having been published it
        borrows the brokers of the default topic. Raises InvalidMessage."""
        found = self._found(topic)
        if found is None:
            found = self._follow(topic, self.default_topic or topic)
        return found

    def published(self, topic: str) -> TopicLanes:
        """Of a topic with its own brokers; raises InvalidMessage."""
        found = self._found(topic)
        if found is None:
            found = self._follow(topic, topic)
        elif found.follows != topic:
            found.borrow_no_more()
            self._read_routes(found)
        return found

    def _found(self, topic: str) -> TopicLanes | None:
        return self._topics.get(topic) if isinstance(topic, str) else None

    def _follow(self, topic: str, follows: str) -> TopicLanes:
        problem = topic_problem(topic)
        if problem is not None:
            raise InvalidMessage(f"the topic {topic!r} {problem}")
        self.check_running()
        lanes = self._topics[topic] = TopicLanes(topic, follows, self._context)
        self._read_routes(lanes)
        return lanes

    def _read_routes(self, lanes: TopicLanes) -> None:
        self._followed.append(lanes.follows)
        reading = self._context.follow(lanes.follows)
        reading.addCallbacks(
            lanes.update, lambda failure: self._unreadable(lanes, failure.value)
        )

    def _unreadable(self, lanes: TopicLanes, error: BaseException) -> None:
        if isinstance(error, ClientError):
            lanes.unreadable(error.at(lanes.topic))
        elif not self.stopping:
            self._log.error("defect in discovery: {error!r}", error=error)

    def _routes_changed(self, routes: PublishRoutes) -> None:
        for lanes in tuple(self._topics.values()):
            if lanes.follows == routes.topic:
                lanes.update(routes)

    def look_again(self, lanes: TopicLanes) -> None:
        """Something about a topic did not work."""
        self._context.discovery.refresh(lanes.follows)

    # -- messages ----------------------------------------------------------------------

    def check_running(self) -> None:
        """Raises ClientStopped."""
        if self.stopping:
            raise self._stopped()

    def parcel(self, message: Message, timeout_s: float, now_s: float) -> Parcel:
        """Check a message; raises InvalidMessage, ClientStopped."""
        if self.stopping:
            raise self._stopped(message.topic)
        flag, payload = payload_of(message, self.settings.most_message_bytes)
        lanes = self._topics.get(message.topic) or self.lanes(message.topic)
        return Parcel(message, lanes, flag, payload, timeout_s, now_s + timeout_s)

    def begin(self, send: Send) -> None:
        """Start it, and count it among those that `flush` waits for."""
        wave = self.waves.latest
        wave.open.add(send)
        send.wave = wave
        send.start()

    def ended(self, send: Send, had_room: bool, outcome: Outcome | None) -> None:
        """A message is over; without outcome it was withdrawn."""
        wave = send.wave
        if wave is None:
            return
        send.wave = None
        wave.open.discard(send)
        room, counters = self.room, self.counters
        if had_room:
            room.used -= send.size_bytes
        if outcome is None:
            counters.cancelled += 1
        else:
            if type(outcome) is SendResult:
                counters.stored += 1
            else:
                counters.failed += 1
            send.tell(outcome)
        if room.waiting:
            room.let_in()
        if wave.sealed and not wave.open:
            self.waves.end()

    # -- the end -----------------------------------------------------------------------

    def abandon(self) -> None:
        """End all that is under way."""
        self.stopping = True
        # What waits goes first, so that nothing is sent into the room that gets free.
        for send in sorted(self.waves, key=lambda send: send.lane is not None):
            send.abandon()

    def close(self) -> None:
        """Let go of all brokers and topics."""
        self._stop_listening()
        topics, self._topics = self._topics, {}
        for lanes in topics.values():
            lanes.close(self._stopped(lanes.topic))
        for topic in self._followed:
            self._context.unfollow(topic)
        self._followed.clear()

    def _stopped(self, topic: str | None = None) -> ClientStopped:
        return ClientStopped("the producer is stopped", Where(topic=topic))
