"""What is known about one configuration key."""

from __future__ import annotations

from typing import Literal

from attrs import frozen

Kind = Literal[
    "int",
    "long",
    "bool",
    "string",
    "choice",
    "path",
    "policy",
    "schedule",
    "endpoint",
]
"""`int` is 32 and `long` 64 bits wide, both with sign."""

Reload = Literal["yes", "no", "partly"]
"""Whether a reload applies a change: at once, only at a restart, or see the help."""


@frozen
class Key:
    """One row of the key tables in `schema`.

    `field` is the attribute that holds the value: of `TopicSettings` when `per_topic`,
    of `ZooKeeperSettings` for `zk.` keys, else of `BrokerSettings`. `default` is
    written as in the file; None together with a `default_note` means that it depends
    on other things. `required` keys have an `example` instead. `least` and `most` bound
    a number and include themselves. `per_value` keys end in a dot and are continued by
    a name: of a topic or of a consumer group. `choices` are the words of a `choice`.
    """

    name: str
    field: str
    kind: Kind
    help: str
    default: str | None = None
    default_note: str = ""
    example: str | None = None
    required: bool = False
    per_topic: bool = False
    per_value: bool = False
    reload: Reload = "no"
    least: int | None = None
    most: int | None = None
    choices: tuple[str, ...] = ()

    @property
    def fallback(self) -> str | None:
        """The text that stands in when the key is absent or its value is wrong."""
        return self.default if self.default is not None else self.example
