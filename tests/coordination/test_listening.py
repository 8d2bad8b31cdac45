"""What is advised when the coordinator's port cannot be listened on."""

from __future__ import annotations

import errno
import os
import socket
from types import SimpleNamespace

from twisted.internet.address import IPv4Address, UNIXAddress
from twisted.trial.unittest import SynchronousTestCase

from metatwist.coordination.embedded.listening import (
    CoordinatorPortTaken,
    is_plain,
    place_of,
)


class AdviceTests(SynchronousTestCase):
    """`CoordinatorPortTaken`."""

    def said(self, reason: Exception) -> str:
        """The text, which always has setting, endpoint, reason and the way out."""
        text = str(CoordinatorPortTaken("tcp:7", reason))
        for part in ("coordinatorEndpoint", "tcp:7", str(reason), "coordinator=none"):
            self.assertIn(part, text)
        return text

    def system_error(self, number: int) -> OSError:
        """An error of the system, with its own words."""
        return OSError(number, os.strerror(number))

    def test_taken(self) -> None:
        """A ZooKeeper is suspected only where somebody has the port."""
        taken = self.said(self.system_error(errno.EADDRINUSE))
        self.assertIn("zk.zkConnect", taken)
        for other in (
            self.system_error(errno.EADDRNOTAVAIL),
            self.system_error(errno.EACCES),
            self.system_error(errno.EMFILE),
            socket.gaierror(socket.EAI_NONAME, "Name or service not known"),
            ValueError("who knows"),
        ):
            self.assertNotIn("ZooKeeper", self.said(other))

    def test_address(self) -> None:
        """An address that is not ours, or of no name, is a matter of `interface`."""
        for error in (
            self.system_error(errno.EADDRNOTAVAIL),
            socket.gaierror(socket.EAI_NONAME, "Name or service not known"),
        ):
            self.assertIn("`interface` has to be an address", self.said(error))

    def test_rights(self) -> None:
        """What the user may not do is a matter of the port."""
        for number in (errno.EACCES, errno.EPERM):
            self.assertIn("below 1024", self.said(self.system_error(number)))


class EndpointTests(SynchronousTestCase):
    """What is read from endpoints and ports."""

    def test_plain(self) -> None:
        """Endpoints that are known to have no layer between are plain."""
        for endpoint in ("tcp:2181", "tcp6:2181", "unix:/run/tree"):
            self.assertTrue(is_plain(endpoint), endpoint)
        for endpoint in ("ssl:2181:privateKey=k", "haproxy:tcp:2181", "tcpx:1"):
            self.assertFalse(is_plain(endpoint), endpoint)

    def test_place(self) -> None:
        """A port that the system has chosen is told; others stand in the endpoint."""
        for endpoint, address, place in (
            ("tcp:0", IPv4Address("TCP", "0.0.0.0", 4711), "tcp:0 (port 4711)"),
            ("tcp:4711", IPv4Address("TCP", "0.0.0.0", 4711), "tcp:4711"),
            ("tcp:port=4711", IPv4Address("TCP", "0.0.0.0", 4711), "tcp:port=4711"),
            ("unix:/a", UNIXAddress("/a"), "unix:/a"),
        ):
            port = SimpleNamespace(getHost=lambda found=address: found)
            self.assertEqual(place_of(endpoint, port), place)
        self.assertEqual(place_of("systemd:0", object()), "systemd:0")
