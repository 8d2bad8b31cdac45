"""`twistd metaq`."""

from twisted.application.service import ServiceMaker

metaq = ServiceMaker(
    "metaq", "metatwist.broker.tap", "A MetaQ 1.4 message broker.", "metaq"
)
