"""Print so many messages: iterator.py ZOOKEEPER TOPIC COUNT"""

import sys

from twisted.internet.task import react

from metatwist.client import MetaClient


async def main(reactor, zookeeper, topic, count):
    left = int(count)
    async with (
        MetaClient(reactor, zookeeper=zookeeper) as client,
        client.consumer("guide-iterator").subscribe(topic) as consumer,
    ):
        async for message in consumer:
            print(message.body.decode())
            left -= 1
            if left == 0:
                consumer.stop()  # ends the loop; the message is done then


react(main, sys.argv[1:])
