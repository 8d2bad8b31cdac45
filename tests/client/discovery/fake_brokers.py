"""Links to brokers that answer `stats`, or do not."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred, fail, succeed

from metatwist.client.errors import Attempt, NotConnected, RequestTimedOut, Where
from metatwist.wire.commands import ResultReply, StatsCommand


class FakeLink:
    """Answers `stats` from `id` and `logs`; `mode` is `up`, `down` or `silent`.

    It is a broker of the original while `offered` is None, otherwise one of ours with
    these lines behind the one of the extensions.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self.mode = "up"
        self.code = 200
        self.id: str | None = "0"
        self.logs: list[tuple[str, int]] = []
        self.offered: list[str] | None = None
        self.holders: set[object] = set()
        self.asked: list[str] = []
        self.silent: list[Deferred[Any]] = []

    def hold(self, owner: object) -> None:
        self.holders.add(owner)

    def release(self, owner: object) -> None:
        self.holders.discard(owner)

    def when_connected(self, timeout_s: float) -> Deferred[None]:
        if self.mode == "up":
            return succeed(None)
        if self.mode == "silent":
            self.silent.append(Deferred())
            return self.silent[-1]
        attempt = Attempt(self.address, "refused")
        return fail(
            NotConnected("no connection", (attempt,), Where(broker=self.address))
        )

    def request(
        self, command: StatsCommand, timeout_s: float | None = None
    ) -> Deferred[Any]:
        self.asked.append(command.item)
        if self.mode != "up":
            return fail(RequestTimedOut("no answer"))
        return succeed(ResultReply(self.code, 1, self.text(command.item).encode()))

    def text(self, item: str) -> str:
        """The body of an answer."""
        lines = ["pid 1"] + ([] if self.id is None else [f"broker_id {self.id}"])
        if item == "offsets":
            lines = [
                f"{topic} part {partition} min_offset 0 max_offset 9"
                for topic, partition in self.logs
            ]
        if item == "extensions":
            lines = [item, "resultCode 1", "partitions 0"]
            if self.offered is not None:
                lines = ["extensions poll partitions", *self.offered]
        if item == "config":
            return "brokerId=0\n"
        return "".join(f"{line}\r\n" for line in ("STATS", *lines, "END"))


class FakeBrokers:
    """All links, made when asked for."""

    def __init__(self) -> None:
        self.links: dict[str, FakeLink] = {}

    def link(self, address: str) -> FakeLink:
        return self.links.setdefault(address, FakeLink(address))
