"""Keep the order of each key: ordered.py ZOOKEEPER TOPIC FILE"""

import sys

from twisted.internet.task import react

from metatwist.client import Message, MetaClient, OrderedSettings


async def main(reactor, zookeeper, topic, path):
    four_of_broker_0 = {topic: {0: 4}}
    async with MetaClient(reactor, zookeeper=zookeeper) as client:
        producer = client.ordered_producer(OrderedSettings(four_of_broker_0, path))
        for step in (b"ordered", b"paid"):
            result = await producer.send(Message(topic, step, key="order 7"))
            where = "parked for" if result.offset < 0 else "stored in"
            print(step.decode(), where, result.partition)


react(main, sys.argv[1:])
