"""Configuration of the broker: `server.ini`, the environment, and reloads.

`load_settings` reads, `compare` tells what a reload may change. The order inside is
`ini` (text), `sources` (known names), `values` (types), `load` (the frozen result).
"""

from metatwist.broker.settings.load import default_settings, load_settings
from metatwist.broker.settings.model import (
    BrokerSettings,
    RetentionPolicy,
    TopicSettings,
    ZooKeeperSettings,
)
from metatwist.broker.settings.policy import parse_policy
from metatwist.broker.settings.reload import Reload, compare

__all__ = [
    "BrokerSettings",
    "Reload",
    "RetentionPolicy",
    "TopicSettings",
    "ZooKeeperSettings",
    "compare",
    "default_settings",
    "load_settings",
    "parse_policy",
]
