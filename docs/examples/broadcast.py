"""Two instances that each get everything: broadcast.py ZOOKEEPER TOPIC DIRECTORY"""

import sys

from twisted.internet.task import react

from metatwist.client import Message, MetaClient


async def main(reactor, zookeeper, topic, directory):
    async with MetaClient(reactor, zookeeper=zookeeper) as client:
        await client.producer().send(Message(topic, b"prices have changed"))
        for instance in ("first", "second"):  # two processes, most often
            consumer = client.broadcast_consumer(
                "guide-broadcast", directory, instance=instance
            )
            async with consumer.subscribe(topic):
                batch = await consumer.next_batch()
                print(consumer.settings.group, batch.messages[0].body.decode())
                await batch.commit()


react(main, sys.argv[1:])
