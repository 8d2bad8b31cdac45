"""Offsets where you want them: own_storage.py ZOOKEEPER TOPIC"""

import sys

from twisted.internet.defer import succeed
from twisted.internet.task import react
from zope.interface import implementer

from metatwist.client import IOffsetStorage, MetaClient, NotOwner


@implementer(IOffsetStorage)
class PrintedOffsets:
    description = "on the screen"

    def load(self, partition, claim):
        return succeed(None)  # none is stored

    def commit(self, commits):
        return succeed({one.partition: self._store(one) for one in commits})

    def _store(self, commit):
        if not commit.claim.holds():
            return NotOwner("not ours any more")
        print("committed", commit.record.offset)
        return None

    def close(self):
        return succeed(None)


async def main(reactor, zookeeper, topic):
    async with MetaClient(reactor, zookeeper=zookeeper) as client:
        consumer = client.consumer("guide-storage", offsets=PrintedOffsets())
        async with consumer.subscribe(topic):
            await (await consumer.next_batch()).commit()


react(main, sys.argv[1:])
