"""Formats of `produce`, `consume` and `browse`."""

from __future__ import annotations

import base64
import json

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from metatwist.cli.client_options import FORMATS as OFFERED
from metatwist.client.message import ReceivedMessage
from metatwist.coordination.names import PartitionName
from metatwist.tools.formats import (
    FORMATS,
    BadInput,
    Content,
    check_encoding,
    delimiter_of,
    from_json,
    renderer,
    to_json,
    transcoded,
    with_key,
)
from metatwist.tools.splitting import Splitter
from metatwist.wire.records import join_payload

ODD_BODIES = (
    b"",
    b"plain",
    b"\r\n",
    b"two\nlines\r\n",
    b"\xff\xfe\x00",
    b"\xed\xa0\x80",
    "\ufeffß\u2028\U0001f600\0".encode(),
    b'{"body":"x"}',
)


def received(body: bytes, attribute: str | None = None) -> ReceivedMessage:
    """As if it had been read."""
    flag, payload = join_payload(attribute, body)
    name, message_id = PartitionName(0, 3), 2**62 + 1
    return ReceivedMessage(
        "news", name, 2**53 + 1, 2**53 + 9, message_id, flag, payload
    )


class JsonTest(SynchronousTestCase):
    """What consume prints, produce reads."""

    @given(st.binary(max_size=200), st.none() | st.text(max_size=20))
    def test_round_trip(self, body: bytes, attribute: str | None) -> None:
        """Body and attribute come back identically, whatever they are."""
        try:
            message = received(body, attribute)
        except UnicodeEncodeError:
            return  # half a surrogate pair: no attribute of any message
        line = to_json(message)
        self.assertEqual(from_json(line), Content(body, attribute))
        self.assertNotIn(b"\n", line)
        self.assertTrue(line.isascii())

    def test_odd_bodies(self) -> None:
        """Control characters, bad UTF-8, byte order marks and JSON itself survive."""
        for body in ODD_BODIES:
            for attribute in (None, "", "a\n\u2029"):
                line = to_json(received(body, attribute))
                self.assertEqual(from_json(line), Content(body, attribute))

    def test_members(self) -> None:
        """Numbers of 64 bits are strings; text is text, other bytes are base64."""
        self.assertEqual(
            json.loads(to_json(received("ä".encode(), "x"))),
            {
                "topic": "news",
                "partition": "0-3",
                "offset": str(2**53 + 1),
                "next_offset": str(2**53 + 9),
                "id": str(2**62 + 1),
                "attribute": "x",
                "body": "ä",
            },
        )
        found = json.loads(to_json(received(b"\xff")))
        self.assertEqual(base64.b64decode(found["body_base64"]), b"\xff")
        self.assertNotIn("body", found)

    def test_malformed_attribute(self) -> None:
        """A message whose attribute does not fit shows its whole payload, says so, and
        is not taken for one that could be sent."""
        message = received(b"")._replace(flag=1, payload=b"\xff\xff\xff\xff")
        line = to_json(message)
        self.assertIs(json.loads(line)["malformed"], True)
        self.assertEqual(renderer("hex")(message), b"ffffffff\n")
        self.assertRaises(BadInput, from_json, line)

    def test_key(self) -> None:
        """A key may be given."""
        self.assertEqual(
            from_json(b'{"body": "b", "key": "k"}'), Content(b"b", None, "k")
        )

    def test_refused(self) -> None:
        """What is no message is refused with the reason."""
        for line, reason in (
            (b"{", "no JSON"),
            (b"\xff", "no JSON"),
            (b"[" * 100_000, "no JSON"),
            (b"1" * 5000, "no JSON"),
            (b"[]", "no JSON object"),
            (b"{}", "needs one of"),
            (b'{"body": "", "body_base64": ""}', "needs one of"),
            (b'{"body": 1}', "body is no text"),
            (b'{"body": null}', "body is no text"),
            (b'{"body_base64": "?"}', "no base64"),
            (b'{"body": "", "atribute": "x"}', "unknown member 'atribute'"),
            (b'{"body": "", "key": 7}', "key is no text"),
            (b'{"body": "\\ud800"}', "surrogate"),
            (b'{"body": "", "attribute": "\\ud800"}', "surrogate"),
        ):
            error = self.assertRaises(BadInput, from_json, line)
            self.assertIn(reason, str(error), line)


class RenderTest(SynchronousTestCase):
    """The other formats."""

    def test_formats_and_delimiters(self) -> None:
        """Bytes stay as they are; raw alone has nothing behind it by default."""
        message = received(b"a\xff\r")
        for name, expected in (
            ("text", b"a\xff\r\n"),
            ("raw", b"a\xff\r"),
            ("hex", b"61ff0d\n"),
            ("base64", b"Yf8N\n"),
        ):
            self.assertEqual(renderer(name)(message), expected)
        self.assertEqual(renderer("raw", b"\0")(message), b"a\xff\r\0")
        self.assertEqual(renderer("text", b"")(message), b"a\xff\r")

    def test_terminal(self) -> None:
        """On a terminal nothing of a body can steer it."""
        message = received(b"\x1b[31m\xff\t\r")
        self.assertEqual(renderer("text", safe=True)(message), b"\\x1b[31m\\xff\t\\r\n")

    def test_options_offer_all(self) -> None:
        """The command line offers exactly the formats that there are."""
        self.assertEqual(OFFERED, FORMATS)


class InputTest(SynchronousTestCase):
    """Lines, keys, encodings."""

    @given(
        st.lists(st.binary(max_size=6), max_size=8),
        st.sampled_from([b"\n", b"\0", b"\r\n", b"aab"]),
        st.integers(1, 9),
    )
    def test_splitting(self, parts: list[bytes], delimiter: bytes, step: int) -> None:
        """However the stream is cut into chunks, the pieces are those of the whole."""
        stream = delimiter.join(parts)
        whole = stream.split(delimiter)
        if not whole[-1]:
            whole.pop()
        splitter, found = Splitter(delimiter, 1000), []
        for start in range(0, len(stream), step):
            found += splitter.feed(stream[start : start + step])
        self.assertEqual(found + splitter.end(), whole)

    @given(st.integers(1, 9), st.sampled_from([b"\n", b"\r\n"]))
    def test_too_large(self, step: int, delimiter: bytes) -> None:
        """A piece that is too large is told of and does no harm to its neighbours."""
        stream = delimiter.join([b"ab", b"x" * 50, b"cd", b"y" * 9])
        splitter, found = Splitter(delimiter, 8), []
        for start in range(0, len(stream), step):
            found += splitter.feed(stream[start : start + step])
        self.assertEqual(found + splitter.end(), [b"ab", None, b"cd", None])

    def test_carriage_return_stays(self) -> None:
        """Only the delimiter is cut away; an empty line is an empty message."""
        splitter = Splitter(b"\n", 100)
        self.assertEqual(splitter.feed(b"a\r\n\nb"), [b"a\r", b""])
        self.assertEqual(splitter.end(), [b"b"])

    def test_keys(self) -> None:
        """The key ends at the first delimiter; without one there is no key."""
        self.assertEqual(with_key(b"k:b:c", b":"), Content(b"b:c", key=b"k"))
        self.assertEqual(with_key(b"body", b":"), Content(b"body"))

    def test_delimiters(self) -> None:
        """Escapes are understood, and nothing is guessed."""
        self.assertEqual(delimiter_of(r"\r\n"), b"\r\n")
        self.assertEqual(delimiter_of(r"ä\t\0\\\xff"), "ä\t\0\\".encode() + b"\xff")
        for text in ("", r"\q", "\\", r"\x1"):
            self.assertRaises(ValueError, delimiter_of, text)

    def test_encodings(self) -> None:
        """Text comes out as UTF-8; what cannot be read in lines is refused."""
        self.assertEqual(transcoded(b"\xe4", "latin-1"), "ä".encode())
        self.assertRaises(BadInput, transcoded, b"\xff", "ascii")
        check_encoding("cp1252")
        for name in ("utf-16", "utf-16-le", "nonsense", "rot13"):
            self.assertRaises(ValueError, check_encoding, name)
