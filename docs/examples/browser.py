"""Print all that a topic has: browser.py ZOOKEEPER TOPIC"""

import sys

from twisted.internet.task import react

from metatwist.client import MetaClient


async def main(reactor, zookeeper, topic):
    async with MetaClient(reactor, zookeeper=zookeeper) as client:
        async for message in client.browser(topic):  # closes itself at the end
            print(message.partition, message.offset, message.body.decode())


react(main, sys.argv[1:])
