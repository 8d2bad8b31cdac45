"""Which addresses were tried in vain, for the sentence that says so at the end."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred, TimeoutError, gatherResults
from twisted.internet.error import ConnectingCancelledError
from twisted.internet.protocol import Factory, Protocol

from metatwist.client.client import MetaClient
from metatwist.client.discovery.address_endpoint import AddressEndpoint
from metatwist.client.errors import Attempt, NotConnected
from metatwist.tools.target import Target

LOOK_S = 0.5


async def with_attempts(
    reactor: Any, client: MetaClient, target: Target, error: NotConnected
) -> NotConnected:
    """The same error with what was tried, found out within LOOK_S: the user's patience
    is over. Never raises."""
    if target.brokers:
        looking = [
            Deferred.fromCoroutine(_look(reactor, one, target.timeout_s))
            for one in target.brokers
        ]
        every = await gatherResults(looking)
    else:
        every = [await _told(reactor, client)]
    attempts = dict.fromkeys(attempt for found in every for attempt in found)
    return NotConnected(error.text, tuple(attempts), error.where)


async def _look(reactor: Any, address: str, patience_s: float) -> tuple[Attempt, ...]:
    """Connect once more: a broker that is there has not answered in time."""
    endpoint = AddressEndpoint(reactor, address, patience_s)
    connecting = endpoint.connect(Factory.forProtocol(Protocol))
    try:
        protocol: Any = await connecting.addTimeout(LOOK_S, reactor)
    except NotConnected as error:
        return error.attempts
    except (TimeoutError, ConnectingCancelledError):
        pass
    else:
        protocol.transport.abortConnection()
    return (Attempt(str(endpoint), f"no answer within {patience_s:g} s"),)


async def _told(reactor: Any, client: MetaClient) -> tuple[Attempt, ...]:
    """What there is to be known of the brokers that the coordinator has named."""
    try:
        answers = await client.stats().addTimeout(LOOK_S, reactor)
    except TimeoutError:
        return ()
    attempts: dict[Attempt, None] = {}
    for address, answer in answers.items():
        failure = answer.error
        if isinstance(failure, NotConnected) and failure.attempts:
            attempts.update(dict.fromkeys(failure.attempts))
        elif failure is not None:
            attempts[Attempt(address, failure.text)] = None
    return tuple(attempts)
