"""A consumer as a service: METAQ=ZOOKEEPER TOPIC=TOPIC twistd -ny printer.tac"""

import os

from twisted.application.service import Application
from twisted.internet import reactor
from twisted.logger import Logger

from metatwist.client import MetaClient

log = Logger()


async def listen(message):
    log.info("got {body}", body=message.body.decode())


def begin():
    starting = consumer.start()
    starting.addErrback(lambda failure: log.failure("cannot consume", failure))


application = Application("printer")
client = MetaClient(reactor, zookeeper=os.environ["METAQ"])
client.setServiceParent(application)  # twistd starts and stops it
consumer = client.consumer("guide-printer").subscribe(os.environ["TOPIC"], listen)
reactor.callWhenRunning(begin)
