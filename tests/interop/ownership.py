"""Who owned the partitions of a group, as the tree showed it over a time."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from types import TracebackType

from attrs import define, frozen
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from typing_extensions import Self

_PAUSE_S = 0.01


@frozen
class Delivery:
    """A message that a member was given; `at_s` by the monotonic clock."""

    member: str
    topic: str
    partition: str
    next_offset: int
    at_s: float

    @property
    def place(self) -> tuple[str, str]:
        """Topic and partition."""
        return self.topic, self.partition

    @property
    def message(self) -> tuple[str, str, int]:
        """Which message it is."""
        return self.topic, self.partition, self.next_offset


@define
class Tenure:
    """One owner node: it was there all the time between `from_s` and `to_s`."""

    owner: str
    created: int
    from_s: float
    to_s: float


class OwnershipRecord:
    """Looks at the owner nodes all the time, within a `with` block.

    A node that is seen twice has been there in between, as its number of creation
    tells; so what it shows is certain, though it may miss what is short.
    """

    def __init__(self, address: str, group: str, topics: Sequence[str]) -> None:
        self._client = KazooClient(address, timeout=10)
        self._directories = {
            topic: f"/meta/consumers/{group}/owners/{topic}" for topic in topics
        }
        self._tenures: dict[tuple[str, str], list[Tenure]] = defaultdict(list)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._client.start()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()
        self._client.stop()
        self._client.close()

    @property
    def handovers(self) -> int:
        """How many owner nodes came after another of their partition."""
        return sum(len(tenures) - 1 for tenures in self._tenures.values())

    def contradicted(self, deliveries: Iterable[Delivery]) -> list[str]:
        """Those that a member was given while another was the owner for certain."""
        return [
            f"{delivery} while {tenure}"
            for delivery in deliveries
            for tenure in self._tenures[delivery.place]
            if tenure.from_s < delivery.at_s < tenure.to_s
            and tenure.owner != delivery.member
        ]

    def _run(self) -> None:
        while not self._ended.wait(_PAUSE_S):
            for topic, directory in self._directories.items():
                try:
                    self._look(topic, directory)
                except KazooException:
                    time.sleep(_PAUSE_S)  # it comes back, or the test fails elsewhere

    def _look(self, topic: str, directory: str) -> None:
        try:
            names = self._client.get_children(directory)
        except NoNodeError:
            return
        asked_s = time.monotonic()
        looks = [
            (name, self._client.get_async(f"{directory}/{name}")) for name in names
        ]
        for name, look in looks:
            try:
                data, stat = look.get()
            except NoNodeError:
                continue
            found = Tenure(
                data.decode(), stat.czxid, from_s=time.monotonic(), to_s=asked_s
            )
            self._keep(self._tenures[topic, name], found)

    def _keep(self, tenures: list[Tenure], found: Tenure) -> None:
        if tenures and tenures[-1].created == found.created:
            tenures[-1].to_s = found.to_s
        else:
            tenures.append(found)
