"""Putting the tree right: reads what is registered, and writes what should be.

Level-triggered: each call compares and repairs, whatever happened before. Beliefs hold
for one session and spare reads in between; a full pass reads everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from attrs import field, frozen
from twisted.internet.defer import Deferred, DeferredList, inlineCallbacks
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from metatwist.broker.registration import NOTHING, Names, Offer
from metatwist.broker.repair_plan import Beliefs, Wish, step_for
from metatwist.coordination.errors import (
    BadVersion,
    CoordinationError,
    NodeExists,
    NoNode,
    NotAuthorized,
    NotEmpty,
    SessionExpired,
    TransactionFailed,
)
from metatwist.coordination.foreign_text import shown
from metatwist.coordination.formats import encode_checksum
from metatwist.coordination.interface import Data, Delete, ICoordinator
from metatwist.coordination.names import NodeName

IN_PARALLEL = 64
AT_ONCE = 150
"""Nodes that are deleted in one transaction."""
MOST_NAMED = 20
"""Other brokers that are told by name; anybody can register any number of them."""
_ATTEMPTS = 4
_RACES = (NodeExists, NoNode, BadVersion)
_log = Logger()

Veto = Callable[[Data | None], "Foreign | None"]


@frozen
class Foreign:
    """A master under our id that lives and is not us; `url` is fit to be shown."""

    url: str
    session_id: int


@frozen
class Others:
    """Other masters that live: how many, and the URLs, fit to be shown, of the first of
    them by id."""

    count: int = 0
    named: Mapping[int, str] = field(factory=dict)

    @property
    def unnamed(self) -> int:
        """How many more there are than are named."""
        return self.count - len(self.named)


class Reconciling:
    """Compares and repairs the nodes of one master.

    Every Deferred fails with CoordinationError when the tree could not be put right;
    what else was under way has ended by then.
    """

    def __init__(self, clock: Any, coordinator: ICoordinator, names: Names) -> None:
        self.names = names
        self.beliefs = Beliefs()
        self.session_id = 0
        self._clock = clock
        self._coordinator: Any = coordinator
        self._topics: dict[str, Offer | None] = {}
        self._masters_lost = 0

    def begin_session(self, session_id: int) -> None:
        """The ephemeral nodes of the one before are gone, or about to be."""
        self.session_id = session_id
        self.beliefs.forget()
        self._topics.clear()
        self._masters_lost = 0

    @property
    def is_master(self) -> bool:
        """Whether the master's node is believed to be ours."""
        return self.names.master in self.beliefs

    # -- the broker's own nodes ---------------------------------------------------

    def claim(self, url: bytes) -> Deferred[Foreign | None]:
        """Be the master; fires with the Foreign who is it, None when it is us.

        A node with our own URL, or without a session, is what an earlier life left.
        """
        return self._settle([Wish(self.names.master, url)], partial(self._veto, url))

    def _veto(self, url: bytes, found: Data | None) -> Foreign | None:
        if found is None:
            return None
        data, stat = found
        if stat.ephemeral_owner in (0, self.session_id):
            return None
        if data == url:
            # Once is an accident; who takes it again is alive, at our own address.
            self._masters_lost += self.is_master
            if self._masters_lost <= 1:
                return None
        self.beliefs.doubt(self.names.master)
        return Foreign(shown(data), stat.ephemeral_owner)

    @inlineCallbacks
    def describe(self, url: bytes, checksum: int, full: bool) -> Any:
        """Publish the address for old clients, and the configuration's checksum."""
        names, beliefs = self.names, self.beliefs
        if full or beliefs.data(names.broker) != url:
            yield self._publish_address(url)
        wish = Wish(names.checksum, encode_checksum(checksum), in_place=True)
        if full or beliefs.data(names.checksum) != wish.data:
            yield self._settle([wish])

    @inlineCallbacks
    def _publish_address(self, url: bytes) -> Any:
        path = self.names.broker
        found = yield self._read(path)
        surprised = self.beliefs.is_surprised(path, found, 0)
        self.beliefs.doubt(path)
        if found is None:
            yield self._make(path)
        if found is None or found[0] != url:
            yield self._coordinator.set(path, url)
        if surprised:
            self._repaired(path, "missing" if found is None else "wrong data")
        self.beliefs.hold(path, url)

    # -- topics -------------------------------------------------------------------

    def register(self, offers: Mapping[str, Offer], full: bool) -> Deferred[Any]:
        """Make the topic nodes follow the offers, each topic in one transaction.

        Only for a master. Topics that are offered no more go first. What is refused for
        one topic does not keep the others, and fails in the end.
        """
        gone = [topic for topic in self._topics if topic not in offers]
        changed = [
            (topic, offer)
            for topic, offer in offers.items()
            if full or self._topics.get(topic) != offer
        ]
        calls = [partial(self._forget_topic, topic) for topic in gone]
        calls += [partial(self._topic, topic, offer) for topic, offer in changed]
        return self._in_chunks(calls)

    @inlineCallbacks
    def _topic(self, topic: str, offer: Offer) -> Any:
        self._topics[topic] = None
        nodes = self.names.topic_nodes(topic, offer)
        yield self._settle([Wish(path, data) for path, data in nodes.items()])
        self._topics[topic] = offer

    @inlineCallbacks
    def _forget_topic(self, topic: str) -> Any:
        yield self._topic(topic, NOTHING)
        del self._topics[topic]
        for path in self.names.topic_nodes(topic, NOTHING):
            self.beliefs.doubt(path)

    # -- others -------------------------------------------------------------------

    @inlineCallbacks
    def other_masters(self) -> Any:
        """The other living masters, as Others."""
        names = self.names
        children = yield self._coordinator.get_children(names.layout.brokers_ids())
        nodes = [NodeName.parse(f"{name}-m") for name in children]
        ids = [node.broker_id for node in nodes if node is not None]
        others = sorted(number for number in ids if number != names.broker_id)
        urls = yield self._in_chunks([partial(self._url, number) for number in others])
        living = [
            (number, url)
            for number, url in zip(others, urls, strict=True)
            if url is not None
        ]
        return Others(len(living), dict(living[:MOST_NAMED]))

    @inlineCallbacks
    def _url(self, number: int) -> Any:
        """What a master has registered, fit to be shown; None without such a master."""
        try:
            found = yield self._read(self.names.layout.master(number))
        except NotAuthorized:
            return "an address that may not be read"
        return None if found is None else shown(found[0])

    # -- leaving ------------------------------------------------------------------

    @inlineCallbacks
    def withdraw(self) -> Any:
        """Remove everything, topics first (spec layout 4.5); fires with whether there
        was something: a master that is not us keeps its nodes."""
        names = self.names
        found = yield self._read(names.master)
        if found is None or found[1].ephemeral_owner != self.session_id:
            return False
        yield self._withdraw_topics()
        # Emptied, not only deleted: a slave may be registered below. While the master
        # is us, or a successor's address would go.
        yield self._coordinator.set(names.broker, b"").addErrback(_none_if, NoNode)
        yield self._settle([Wish(names.master, None), Wish(names.checksum, None)])
        yield self._coordinator.delete(names.broker).addErrback(
            _none_if, NotEmpty, NoNode
        )
        self.begin_session(self.session_id)
        return True

    @inlineCallbacks
    def _withdraw_topics(self) -> Any:
        """Many nodes in one transaction; one by one when something is in the way."""
        nodes = [
            path
            for topic, offer in self._topics.items()
            for path, data in self.names.topic_nodes(topic, offer or NOTHING).items()
            if data is not None
        ]
        chunks = [nodes[at : at + AT_ONCE] for at in range(0, len(nodes), AT_ONCE)]
        try:
            yield self._in_chunks([partial(self._delete_all, one) for one in chunks])
        except TransactionFailed:
            try:
                yield self.register({}, full=True)
            except CoordinationError as error:
                _log.error("a topic could not be withdrawn: {error}", error=error)

    def _delete_all(self, paths: Sequence[str]) -> Deferred[Any]:
        deleting: Deferred[Any] = self._coordinator.transaction(
            [Delete(path) for path in paths]
        )
        return deleting

    # -- one transaction ----------------------------------------------------------

    @inlineCallbacks
    def _settle(self, wishes: Sequence[Wish], veto: Veto | None = None) -> Any:
        """Make all wishes true in one transaction; fires with the veto, or None.

        `veto` is asked about the first node as it is.
        """
        surprises: set[str] = set()
        for _ in range(_ATTEMPTS):
            if self._coordinator.session_id != self.session_id:
                raise SessionExpired
            found = yield _all_of([self._read(wish.path) for wish in wishes])
            foreign = veto(found[0]) if veto is not None else None
            if foreign is not None:
                return foreign
            seen = dict(zip(wishes, found, strict=True))
            surprises |= self._surprises(seen)
            if (yield self._make_true(seen, surprises)):
                return None
        raise NodeExists(f"{wishes[0].path}: others write here as well")

    def _surprises(self, seen: Mapping[Wish, Data | None]) -> set[str]:
        return {
            wish.path
            for wish, found in seen.items()
            if self.beliefs.is_surprised(wish.path, found, self.session_id)
        }

    @inlineCallbacks
    def _make_true(self, seen: Mapping[Wish, Data | None], surprises: set[str]) -> Any:
        """One attempt; fires with False when the nodes have changed meanwhile."""
        steps = [step_for(wish, seen[wish], self.session_id) for wish in seen]
        todo = [step for step in steps if step is not None]
        for step in todo:
            self.beliefs.doubt(step.path)
        try:
            if todo:
                operations = [one for step in todo for one in step.operations]
                yield self._coordinator.transaction(operations)
        except TransactionFailed as error:
            if not isinstance(error.cause, _RACES):
                raise
            if isinstance(error.cause, NoNode):
                yield self._make_parents([wish for wish in seen if wish.data])
            return False
        for step in todo:
            if step.path in surprises:
                self._repaired(step.path, step.fault.value)
        for wish in seen:
            self.beliefs.hold(wish.path, wish.data)
        return True

    def _repaired(self, path: str, fault: str) -> None:
        self.beliefs.count(fault)
        _log.warn("repaired {path}: {fault}", path=path, fault=fault)

    # -- small requests -----------------------------------------------------------

    def _read(self, path: str) -> Deferred[Data | None]:
        reading: Deferred[Any] = self._coordinator.get(path)
        return reading.addErrback(_none_if, NoNode)

    def _make(self, path: str) -> Deferred[Any]:
        making: Deferred[Any] = self._coordinator.create(path, make_parents=True)
        return making.addErrback(_none_if, NodeExists)

    def _make_parents(self, wishes: Iterable[Wish]) -> Deferred[Any]:
        parents = dict.fromkeys(wish.path.rpartition("/")[0] for wish in wishes)
        return _all_of([self._make(path) for path in parents])

    @inlineCallbacks
    def _in_chunks(self, calls: Sequence[Callable[[], Deferred[Any]]]) -> Any:
        """The results of all calls, a bounded number of them at a time, and a turn for
        everyone else in between. After a refusal the others are still called."""
        results: list[Any] = []
        refusal: CoordinationError | None = None
        for start in range(0, len(calls), IN_PARALLEL):
            if start:
                yield deferLater(self._clock, 0, lambda: None)
            chunk = calls[start : start + IN_PARALLEL]
            try:
                results += yield _all_of([call() for call in chunk])
            except CoordinationError as error:
                if error.retriable or isinstance(error, SessionExpired):
                    raise
                refusal = refusal or error
        if refusal is not None:
            raise refusal
        return results


def _none_if(failure: Failure, *kinds: type[CoordinationError]) -> None:
    failure.trap(*kinds)


def _all_of(waiting: list[Deferred[Any]]) -> Deferred[list[Any]]:
    """The results once all have ended, or the first failure."""
    everyone = DeferredList(waiting, consumeErrors=True)

    def values(results: list[tuple[bool, Any]]) -> Any:
        failures = [value for success, value in results if not success]
        return failures[0] if failures else [value for _, value in results]

    return everyone.addCallback(values)
