"""Without ZooKeeper: direct.py BROKER TOPIC DIRECTORY"""

import sys

from twisted.internet.task import react

from metatwist.client import FileOffsets, Message, MetaClient, PartitionName

PARTITIONS = [PartitionName(0, number) for number in range(4)]  # of broker 0


async def main(reactor, broker, topic, directory):
    async with MetaClient(reactor, brokers=[broker]) as client:
        await client.producer().send(Message(topic, b"hello"))
        offsets = FileOffsets.in_directory(reactor, directory, "guide-direct")
        consumer = client.consumer(
            "guide-direct", offsets=offsets, partitions=PARTITIONS
        )
        async with consumer.subscribe(topic):
            batch = await consumer.next_batch()
            print(batch.messages[0].body.decode())
            await batch.commit()


react(main, sys.argv[1:])
