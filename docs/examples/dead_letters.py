"""Give up on a message after two tries: dead_letters.py ZOOKEEPER TOPIC"""

import sys

from twisted.internet.defer import Deferred
from twisted.internet.task import react
from twisted.logger import globalLogBeginner, textFileLogObserver

from metatwist.client import (
    ConsumerHooks,
    ConsumerSettings,
    DeadLetterTopic,
    DeliverySettings,
    MetaClient,
    Rejected,
    origin,
)

SETTINGS = ConsumerSettings("guide-dead", delivery=DeliverySettings(most_deliveries=2))


def listen(message):
    print("order", int(message.body))  # raises ValueError for what is no number


async def main(reactor, zookeeper, topic):
    globalLogBeginner.beginLoggingTo(
        [textFileLogObserver(sys.stderr)], redirectStandardIO=False
    )
    rejected = Deferred()

    def on_event(event):
        if isinstance(event, Rejected):
            rejected.callback(event.outcome)

    async with MetaClient(reactor, zookeeper=zookeeper) as client:
        dead = DeadLetterTopic(client.producer().send, "{topic}.dead", origin)
        consumer = client.consumer(SETTINGS, hooks=ConsumerHooks(on_event=on_event))
        async with consumer.subscribe(topic, listen, rejection=dead):
            print(await rejected)


react(main, sys.argv[1:])
