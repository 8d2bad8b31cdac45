"""Acknowledge groups of messages: acks.py ZOOKEEPER TOPIC COUNT"""

import sys

from twisted.internet.defer import Deferred
from twisted.internet.task import react

from metatwist.client import MetaClient


class Orders:
    """An order is some lines and an `end`: all of it counts, or nothing."""

    def __init__(self, count):
        self.lines = []
        self.left = count
        self.finished = Deferred()

    def listen(self, message, acks):
        self.lines.append(message.body.decode())
        if message.body == b"end":
            print("order:", *self.lines)
            self.lines.clear()
            acks.ack()  # this message, and all before it
            self.left -= 1
            if self.left == 0:
                self.finished.callback(None)


async def main(reactor, zookeeper, topic, count):
    orders = Orders(int(count))
    async with MetaClient(reactor, zookeeper=zookeeper) as client:
        consumer = client.consumer("guide-acks")
        consumer.subscribe(topic, orders.listen, manual_ack=True)
        async with consumer:
            await orders.finished


react(main, sys.argv[1:])
