"""Text that others wrote, as it is shown."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from metatwist.coordination.foreign_text import MOST_CHARACTERS, escaped, shown


class ShownTests(SynchronousTestCase):
    """In one line, in bounds."""

    def test_plain(self) -> None:
        """What is short and printable stays as it is, as text and as bytes."""
        for text in ("", "meta://host:8123", "\u65b0\u95fb", "x" * MOST_CHARACTERS):
            self.assertEqual(shown(text), text)
            self.assertEqual(shown(text.encode()), text)

    def test_cut(self) -> None:
        """What is longer is cut, and says so; a character is never cut in two."""
        for one in ("x", "\u65b0", "\U0001f600"):
            expected = one * MOST_CHARACTERS + "..."
            for text in (one * (MOST_CHARACTERS + 1), one * 1_000_000):
                self.assertEqual(shown(text), expected)
                self.assertEqual(shown(text.encode()), expected)
        self.assertEqual(shown("abcd", 3), "abc...")

    def test_escaped(self) -> None:
        """What could steer a terminal or break a line is escaped, but for what is
        kept."""
        self.assertEqual(shown("a\x1b[2J\nb\u202e"), "a\\x1b[2J\\nb\\u202e")
        self.assertEqual(shown(b"a\xffb"), "a\\xffb")
        self.assertEqual(escaped("a\n\tb\r", keep="\n\t"), "a\n\tb\\r")

    @given(st.one_of(st.text(), st.binary(max_size=1000)), st.integers(1, 50))
    def test_any(self, text: str | bytes, most: int) -> None:
        """Whatever it is, it is printable and no longer than was asked for."""
        found = shown(text, most)
        self.assertTrue(found.isprintable())
        self.assertLessEqual(len(found), most + len("..."))
