"""Checks 1 to 30: framing and dispatch."""

from __future__ import annotations

from metatwist import __version__
from tests.conformance.conformance_case import ConformanceCase
from tests.conformance.requests import CHECKS

VERSION = __version__.encode()


def version_reply(opaque: int) -> bytes:
    """What answers `version`."""
    return b"result 200 %d %d\r\n" % (len(VERSION), opaque) + VERSION


class VersionChecks(ConformanceCase):
    """`version` and its opaque."""

    def test_001_version(self) -> None:
        """`version` is answered with the version, and the connection stays open."""
        peer = self.peer()
        self.assertEqual(self.check("1", peer), version_reply(7))
        self.assertTrue(peer.is_silent())

    def test_002_default_opaque(self) -> None:
        """Without an opaque the largest one is used."""
        self.assertEqual(self.check("2"), version_reply(2147483647))

    def test_003_extra_tokens(self) -> None:
        """Extra tokens of `version` are ignored."""
        self.assertEqual(self.check("3"), version_reply(7))

    def test_004_other_words_with_v(self) -> None:
        """Every word with `v` but `value` is `version`."""
        self.assertEqual(self.check("4"), version_reply(11))

    def test_005_smallest_opaque(self) -> None:
        """The smallest 32-bit opaque comes back."""
        self.assertEqual(self.check("5"), version_reply(-2147483648))

    def test_006_leading_zeros(self) -> None:
        """An opaque comes back in canonical form."""
        self.assertEqual(self.check("6"), version_reply(7))

    def test_007_opaque_out_of_range(self) -> None:
        """An opaque past 32 bits closes."""
        self.assert_closes("7")

    def test_008_opaque_no_number(self) -> None:
        """An opaque that is no number closes."""
        self.assert_closes("8")

    def test_009_two_spaces(self) -> None:
        """Two spaces make an empty token, which is no number."""
        self.assert_closes("9")

    def test_010_line_feed_alone(self) -> None:
        """A line feed alone ends no header; it is a part of the token."""
        peer = self.peer()
        peer.send(b"version 7\n")
        self.assertTrue(peer.is_silent())
        peer.send(b"\r\n")
        self.assertEqual(peer.until_closed(), b"")


class MalformedChecks(ConformanceCase):
    """What is no command."""

    def test_011_carriage_return_twice(self) -> None:
        """A second carriage return is a part of the token."""
        self.assert_closes("11")

    def test_012_blank_line(self) -> None:
        """A blank line closes."""
        self.assert_closes("12")

    def test_013_only_spaces(self) -> None:
        """A header of spaces closes."""
        self.assert_closes("13")

    def test_014_leading_space(self) -> None:
        """A leading space closes."""
        self.assert_closes("14")

    def test_015_unknown_word(self) -> None:
        """An unknown word closes."""
        self.assert_closes("15")

    def test_016_upper_case(self) -> None:
        """Command words are lower case."""
        self.assert_closes("16")

    def test_017_misspelt_words(self) -> None:
        """Words that only begin like a command close."""
        self.assert_closes("17a", "17b", "17c", "17d", "17e")

    def test_018_quit(self) -> None:
        """`quit`, and every word with `q`, closes without an answer."""
        self.assert_closes("18a", "18b")

    def test_019_quit_after_version(self) -> None:
        """Answers are flushed before `quit` closes."""
        peer = self.peer()
        peer.send(CHECKS["19"].data)
        self.assertEqual(peer.until_closed(), version_reply(1))

    def test_020_violation_after_version(self) -> None:
        """Answers are flushed before a violation closes; later requests are ignored."""
        peer = self.peer()
        peer.send(CHECKS["20"].data)
        self.assertEqual(peer.until_closed(), version_reply(1))


class DispatchChecks(ConformanceCase):
    """What reaches which command."""

    def test_021_same_opaque_twice(self) -> None:
        """Two requests with one opaque get two answers."""
        peer = self.peer()
        self.assertEqual(self.check("21", peer), version_reply(1))
        self.assertEqual(peer.reply(), version_reply(1))

    def test_022_stray_value(self) -> None:
        """A `value` from a client is skipped with its body."""
        peer = self.peer()
        self.assertEqual(self.check("22", peer), version_reply(2))
        self.assertTrue(peer.is_silent())

    def test_023_stray_result(self) -> None:
        """A `result` from a client is skipped with its body."""
        peer = self.peer()
        self.assertEqual(self.check("23", peer), version_reply(2))
        self.assertTrue(peer.is_silent())

    def test_024_malformed_replies(self) -> None:
        """Malformed replies from a client close."""
        self.assert_closes("24a", "24b")

    def test_025_byte_by_byte(self) -> None:
        """A request in one-byte segments is answered as in one segment."""
        peer = self.peer()
        for byte in self.own(CHECKS["31"].data):
            peer.send(bytes([byte]))
        self.assert_result(peer.reply(), 200, 2, rb"[0-9]+ 0 0")

    def test_026_long_header(self) -> None:
        """A header of 60,000 bytes is read."""
        reply = self.check("26")
        self.assert_result(reply, 404, 5, rb"The topic `t{59000}` in .*")

    def test_027_extra_tokens_of_get(self) -> None:
        """Extra tokens of `get` are ignored."""
        self.assertEqual(self.check("27"), self.ask(b"get test g 0 0 100 1\r\n"))

    def test_028_too_few_tokens(self) -> None:
        """Too few tokens close."""
        self.assert_closes("28a", "28b")

    def test_029_trailing_spaces(self) -> None:
        """Trailing spaces are harmless."""
        self.assert_result(self.check("29"), 404, 5, rb"The topic `test` in .*")

    def test_030_bad_integers(self) -> None:
        """Exponents, hexadecimal and numbers out of range close."""
        self.assert_closes("30a", "30b", "30c", "30d")
