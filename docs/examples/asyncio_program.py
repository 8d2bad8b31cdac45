"""The client in a program of asyncio: asyncio_program.py ZOOKEEPER TOPIC"""

import asyncio
import sys

from twisted.internet import asyncioreactor

loop = asyncio.new_event_loop()
asyncioreactor.install(loop)  # before anything imports the reactor

from twisted.internet import reactor  # noqa: E402

from metatwist.client import Message, MetaClient  # noqa: E402
from metatwist.client.on_asyncio import as_future, asyncio_listener, running  # noqa: E402


async def main(zookeeper, topic):
    received = asyncio.Queue()

    async def listen(message):  # a task: the message is done when that is
        await asyncio.sleep(0.01)
        await received.put(message.body.decode())

    async with running(MetaClient(reactor, zookeeper=zookeeper)) as client:
        consumer = client.consumer("guide-asyncio")
        consumer.subscribe(topic, asyncio_listener(listen))
        async with running(consumer):
            await as_future(client.producer().send(Message(topic, b"hello")))
            print(await received.get())


def begin():
    task = loop.create_task(main(*sys.argv[1:]))
    task.add_done_callback(lambda _: reactor.stop())


reactor.callWhenRunning(begin)
reactor.run()
