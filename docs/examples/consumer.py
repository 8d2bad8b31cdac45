"""Print messages until Ctrl-C: consumer.py ZOOKEEPER TOPIC"""

import sys

from twisted.internet.defer import Deferred
from twisted.internet.task import react
from twisted.logger import globalLogBeginner, textFileLogObserver

from metatwist.client import MetaClient


def listen(message):  # may be a coroutine function, or answer a Deferred
    print(f"{message.partition} {message.offset}: {message.body.decode()}", flush=True)


async def main(reactor, zookeeper, topic):
    globalLogBeginner.beginLoggingTo(
        [textFileLogObserver(sys.stderr)], redirectStandardIO=False
    )
    client = MetaClient(reactor, zookeeper=zookeeper)
    reactor.addSystemEventTrigger("before", "shutdown", client.stop)
    client.startService()
    consumer = client.consumer("guide-consumer")
    consumer.subscribe(topic, listen)
    await consumer.start()
    await Deferred()  # for ever; Ctrl-C stops the client, and with it the consumer


react(main, sys.argv[1:])
