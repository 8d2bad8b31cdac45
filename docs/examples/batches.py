"""Commit after each batch: batches.py ZOOKEEPER TOPIC COUNT"""

import sys

from twisted.internet.task import react

from metatwist.client import CommitSettings, ConsumerSettings, MetaClient

SETTINGS = ConsumerSettings("guide-batches", commit=CommitSettings(auto=False))


async def main(reactor, zookeeper, topic, count):
    left = int(count)
    async with (
        MetaClient(reactor, zookeeper=zookeeper) as client,
        client.consumer(SETTINGS).subscribe(topic) as consumer,
    ):
        while left > 0:
            batch = await consumer.next_batch(100)
            bodies = [message.body.decode() for message in batch.messages]
            print(batch.partition, *bodies)  # one partition, in order
            await batch.commit()
            left -= len(bodies)


react(main, sys.argv[1:])
