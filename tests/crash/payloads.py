"""Messages that say who they are, and can be made again from that alone."""

from __future__ import annotations

import random
import struct
import zlib
from typing import NamedTuple

_STAMP = struct.Struct(">4sIHI")
_MAGIC = b"CRSH"
LONGEST_BYTES = 20 * 1024


class Identity(NamedTuple):
    """One message of a campaign: who sent it in which round, as the how-manieth."""

    round: int
    producer: int
    sequence: int


def _noise(seed: int) -> bytes:
    """Bytes with runs of zeros, which look like lengths and like torn tails."""
    source = random.Random(seed)
    pieces = []
    for _ in range(300):
        pieces.append(source.randbytes(source.randrange(1, 400)))
        pieces.append(bytes(source.choice((1, 3, 8, 20, 41, 200))))
    return b"".join(pieces)


class Payloads:
    """Makes and recognizes the payloads of one campaign."""

    def __init__(self, seed: int) -> None:
        noise = _noise(seed)
        self._noise = noise * (1 + 2 * LONGEST_BYTES // len(noise))
        self._places = len(self._noise) - LONGEST_BYTES

    def make(self, identity: Identity) -> bytes:
        """The payload: its stamp and some noise; one in fifty is empty."""
        stamp = _STAMP.pack(_MAGIC, *identity)
        dice = zlib.crc32(stamp)
        if dice % 50 == 0:
            return b""
        kind, dice = dice % 10, zlib.crc32(stamp, 1)
        longest = {0: 1, 1: 30, 2: LONGEST_BYTES}.get(kind, 3000)
        size = dice % longest
        start = zlib.crc32(stamp, 2) % self._places
        return stamp + self._noise[start : start + size]

    def identify(self, payload: bytes) -> Identity | None:
        """Who sent it; None when nobody did, or when not all of it is as sent."""
        if len(payload) < _STAMP.size:
            return None
        magic, *numbers = _STAMP.unpack_from(payload)
        identity = Identity(*numbers)
        if magic != _MAGIC or self.make(identity) != payload:
            return None
        return identity
