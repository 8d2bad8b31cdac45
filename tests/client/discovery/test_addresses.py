"""What may be written as the address of a broker."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from metatwist.client.discovery.addresses import (
    EndpointText,
    normalised,
    read_address,
)
from metatwist.coordination.broker_url import BrokerUrl

GOOD = {
    "meta://h:8123": "meta://h:8123",
    "meta://Broker-1.Example.ORG:8123": "meta://broker-1.example.org:8123",
    "meta://h:8123/": "meta://h:8123",
    "meta://h:8123?x=1": "meta://h:8123",
    " h:8123 ": "meta://h:8123",
    "h:08123": "meta://h:8123",
    "127.0.0.1:1": "meta://127.0.0.1:1",
    "with_underscore:65535": "meta://with_underscore:65535",
    "[::1]:8123": "meta://[::1]:8123",
    "meta://[FE80:0:0::0:1]:8123": "meta://[fe80::1]:8123",
    "tcp:8123": "meta://tcp:8123",
    "unix:8123": "meta://unix:8123",
    "tcp:h:8123": "tcp:h:8123",
    "TCP:host=h:port=8123": "TCP:host=h:port=8123",
    "tls:h:8123": "tls:h:8123",
    "unix:/run/metaq.sock": "unix:/run/metaq.sock",
    "unix:./8123": "unix:./8123",
}
BAD = (
    "",
    "h",
    ":8123",
    "meta://h",
    "meta://:8123",
    "h:0",
    "h:65536",
    "::1:8123",
    "[::1]",
    "[h]:8123",
    "[::g]:1",
    "http://h:80",
    "meta:h:8123",
    "nonsense:h:8123",
    "h:port",
    "h h:8123",
    "a..b:8123",
    "x" * 64 + ":8123",
    "\ud800:8123",
    "tcp:",
)


class AddressTests(SynchronousTestCase):
    """Each form, and its normal one."""

    def test_good(self) -> None:
        """Each address has one key, which is the address again."""
        for text, key in GOOD.items():
            self.assertEqual(normalised(text), key, text)
            self.assertEqual(normalised(key), key)

    def test_kinds(self) -> None:
        """Host and port are told from endpoint strings."""
        self.assertEqual(read_address("tcp:8123"), BrokerUrl("tcp", 8123))
        self.assertEqual(read_address("tcp:h:8123"), EndpointText("tcp:h:8123"))

    def test_bad(self) -> None:
        """All else is a ValueError that says what may be written."""
        for text in BAD:
            with self.assertRaises(ValueError, msg=text) as caught:
                normalised(text)
            self.assertIn("write meta://host:port", str(caught.exception), text)

    @given(st.text(max_size=30))
    def test_any_text(self, text: str) -> None:
        """Any text has a key that is its own key, or is a ValueError."""
        try:
            key = normalised(text)
        except ValueError:
            return
        self.assertEqual(normalised(key), key)

    @given(st.ip_addresses(), st.integers(1, 65535))
    def test_any_ip(self, ip: object, port: int) -> None:
        """Every numeric address may be written with and without the scheme."""
        host = f"[{ip}]" if ":" in str(ip) else str(ip)
        key = normalised(f"{host}:{port}")
        self.assertEqual(normalised(f"meta://{host}:{port}"), key)
        self.assertTrue(key.endswith(f":{port}"))
