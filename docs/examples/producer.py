"""Send three messages: producer.py ZOOKEEPER TOPIC"""

import sys

from twisted.internet.task import react

from metatwist.client import ClientError, Message, MetaClient


async def main(reactor, zookeeper, topic):
    async with MetaClient(reactor, zookeeper=zookeeper) as client:
        producer = client.producer()
        for number in range(3):
            message = Message(topic, b"order %d" % number, attribute="new")
            try:
                result = await producer.send(message)
            except ClientError as error:
                print("maybe stored:" if error.outcome_unknown else "lost:", error)
            else:
                print(f"stored in {result.partition} at {result.offset}")


react(main, sys.argv[1:])
