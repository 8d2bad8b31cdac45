"""Choose partitions yourself: own_selector.py ZOOKEEPER TOPIC"""

import sys

from twisted.internet.task import react

from metatwist.client import ByKey, Message, MetaClient


def urgent_first(topic, partitions, message):
    """One partition for what is urgent; the rest for all else."""
    if message.attribute == "urgent" or len(partitions) == 1:
        return partitions[0]
    return partitions[1 + message.body[0] % (len(partitions) - 1)]


async def main(reactor, zookeeper, topic):
    async with MetaClient(reactor, zookeeper=zookeeper) as client:
        producer = client.producer(selector=urgent_first)
        result = await producer.send(Message(topic, b"fire", attribute="urgent"))
        print("urgent", result.partition)
        by_key = client.producer(selector=ByKey())
        results = [await by_key.send(Message(topic, b"", key="bob")) for _ in range(2)]
        print("same", results[0].partition == results[1].partition)


react(main, sys.argv[1:])
