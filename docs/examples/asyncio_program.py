"""The client in a program of asyncio: asyncio_program.py ZOOKEEPER TOPIC"""

import asyncio
import sys

from twisted.internet import asyncioreactor

loop = asyncio.new_event_loop()
asyncioreactor.install(loop)  # before anything imports the reactor

from twisted.internet import reactor  # noqa: E402

from metatwist.client import Message, MetaClient  # noqa: E402


async def main(zookeeper, topic):
    client = MetaClient(reactor, zookeeper=zookeeper)
    client.startService()
    received = asyncio.Queue()

    def listen(message):  # answers a future: the message is done when that is
        return asyncio.ensure_future(received.put(message.body.decode()))

    consumer = client.consumer("guide-asyncio").subscribe(topic, listen)
    await consumer.start().asFuture(loop)
    await client.producer().send(Message(topic, b"hello")).asFuture(loop)
    print(await received.get())
    await client.stop().asFuture(loop)


def begin():
    task = loop.create_task(main(*sys.argv[1:]))
    task.add_done_callback(lambda _: reactor.stop())


reactor.callWhenRunning(begin)
reactor.run()
