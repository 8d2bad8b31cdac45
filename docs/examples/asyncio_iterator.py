"""Print so many messages, in asyncio: asyncio_iterator.py ZOOKEEPER TOPIC COUNT"""

import asyncio
import sys

from twisted.internet import asyncioreactor

loop = asyncio.new_event_loop()
asyncioreactor.install(loop)  # before anything imports the reactor

from twisted.internet import reactor  # noqa: E402

from metatwist.client import MetaClient  # noqa: E402
from metatwist.client.on_asyncio import messages, running  # noqa: E402


async def main(zookeeper, topic, count):
    left = int(count)
    async with running(MetaClient(reactor, zookeeper=zookeeper)) as client:
        consumer = client.consumer("guide-asyncio-iterator").subscribe(topic)
        async with running(consumer):
            async for message in messages(consumer):
                await asyncio.sleep(0.01)
                print(message.body.decode())
                left -= 1
                if left == 0:
                    consumer.stop()  # ends the loop; the message is done then


def begin():
    task = loop.create_task(main(*sys.argv[1:]))
    task.add_done_callback(lambda _: reactor.stop())


reactor.callWhenRunning(begin)
reactor.run()
