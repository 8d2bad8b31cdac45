"""The text form of server.ini (spec configuration 2)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from metatwist.broker.settings.ini import IniFile, parse_ini, render_ini


def read(text: str) -> IniFile:
    """Parse `text` under the name `a.ini`."""
    return parse_ini(text.encode(), "a.ini")


def values(text: str, section: str = "s") -> dict[str, str]:
    """The values of one section of `text`, which must be free of problems."""
    parsed = read(text)
    assert not parsed.problems, parsed.problems
    return {key: entry.value for key, entry in parsed.merged(section).items()}


class LinesTests(SynchronousTestCase):
    """Sections, separators, comments."""

    def test_first_separator_separates(self) -> None:
        """The first = or : ends the key, later ones belong to the value."""
        found = values("[s]\na = b:c=d\ne:f=g\nh=\n")
        self.assertEqual(found, {"a": "b:c=d", "e": "f=g", "h": ""})

    def test_blanks_are_trimmed(self) -> None:
        """Blanks around section names, keys and values do not count."""
        self.assertEqual(values("  [ s\t] \n  a \t=  b c  \n"), {"a": "b c"})

    def test_comment_lines(self) -> None:
        """A line that begins with ; or # says nothing, wherever it is indented."""
        self.assertEqual(values("; x\n[s]\n  # a=1\n;b=2\nc=3\n"), {"c": "3"})

    def test_no_trailing_comments(self) -> None:
        """What looks like a comment behind a value is part of the value."""
        self.assertEqual(values("[s]\na=1 ; x\nb='2' # y\n")["a"], "1 ; x")
        self.assertEqual(values("[s]\nb='2' # y\n")["b"], "'2' # y")

    def test_any_line_end(self) -> None:
        """Lines may end the Unix, the Windows or the old Macintosh way."""
        self.assertEqual(values("[s]\r\na=1\rb=2\nc=3"), {"a": "1", "b": "2", "c": "3"})

    def test_repeats_merge(self) -> None:
        """Of a repeated key, in one section or in both parts of it, the last wins."""
        found = values("[s]\na=1\na=2\nb=1\n[t]\n[s]\nb=\n")
        self.assertEqual(found, {"a": "2", "b": ""})

    def test_keys_differ_by_case(self) -> None:
        """Keys that differ in case are different keys."""
        self.assertEqual(values("[s]\na=1\nA=2\n"), {"a": "1", "A": "2"})

    def test_entries_know_their_line(self) -> None:
        """An entry remembers file and line, a joined one the first of its lines."""
        parsed = read("\n[s]\n;\na=1\\\n 2\nb=3\n")
        self.assertEqual([e.where for e in parsed.entries], ["a.ini:4", "a.ini:6"])
        self.assertEqual(parsed.sections, {"s": 2})


class EscapeTests(SynchronousTestCase):
    """Backslashes."""

    def test_escapes(self) -> None:
        """Letters of control characters and \\u are read, other escapes drop out."""
        found = values(r"[s]" + "\n" + r"a=x\ty\nz\\\u6587\:\q" + "\n")
        self.assertEqual(found["a"], "x\ty\nz\\文:q")

    def test_section_names_too(self) -> None:
        """Section names are unescaped as values are."""
        self.assertEqual(values("[topic=a\\\\d*]\na=1\n", "topic=a\\d*"), {"a": "1"})

    def test_continuation(self) -> None:
        """A backslash at the end joins the next line, of which the indent is lost."""
        self.assertEqual(values("[s]\na=1*\\\n   2\nb=3\n"), {"a": "1*2", "b": "3"})

    def test_doubled_backslash_ends_a_line(self) -> None:
        """Two backslashes at the end are one backslash and no continuation."""
        self.assertEqual(values("[s]\na=b\\\\\nc=d\n"), {"a": "b\\", "c": "d"})

    def test_comment_sign_in_continuation(self) -> None:
        """A joined line is no comment even if it starts with a comment sign."""
        self.assertEqual(values("[s]\na=1\\\n\n;c\nb=2\n"), {"a": "1;c", "b": "2"})


class EncodingTests(SynchronousTestCase):
    """Bytes to text."""

    def test_byte_order_mark(self) -> None:
        """A byte order mark in front is passed over."""
        self.assertEqual(values("\ufeff[s]\na=1\n"), {"a": "1"})

    def test_gbk_where_not_utf8(self) -> None:
        """A line that is not UTF-8 is read as GBK, and the others stay as they are."""
        raw = "[s]\na=数据\n".encode() + "; 配置\nb=路径\n".encode("gbk")
        found = parse_ini(raw, "a.ini").merged("s")
        self.assertEqual([e.value for e in found.values()], ["数据", "路径"])

    def test_neither(self) -> None:
        """A value in neither encoding is a problem, a comment is not."""
        parsed = parse_ini(b"; \xff\xff\n[s]\na=\xff\xff\nb=1\n", "a.ini")
        self.assertEqual(parsed.problems, ("a.ini:3: text is neither UTF-8 nor GBK",))
        self.assertEqual(list(parsed.merged("s")), ["b"])


class ProblemTests(SynchronousTestCase):
    """Lines that cannot be read."""

    def check(self, text: str, line: int, words: str) -> None:
        """`text` has one problem, which names the line and says `words`."""
        (problem,) = read(text).problems
        self.assertIn(f"a.ini:{line}: ", problem)
        self.assertIn(words, problem)

    def test_no_separator(self) -> None:
        """A line without = and : is a problem."""
        self.check("[s]\nhello\n", 2, "`hello` has neither = nor :")

    def test_no_key(self) -> None:
        """A line that begins with the separator is a problem."""
        self.check("[s]\n =1\n", 2, "no key stands before the =")

    def test_key_before_section(self) -> None:
        """A key before the first section is a problem."""
        self.check("a=1\n[s]\n", 1, "the key a stands before the first [section]")

    def test_section_header(self) -> None:
        """A header that does not end with its bracket, or is empty, is a problem."""
        self.check("[s] ; x\n", 1, "does not end with ]")
        self.check("[ ]\n", 1, "has no name")

    def test_bad_unicode_escape(self) -> None:
        """An escape of a character needs its four digits."""
        self.check("[s]\na=\\u00zz\n", 2, "four hexadecimal digits")

    def test_dangling_continuation(self) -> None:
        """A backslash at the end of the last line is a problem and not a lost key."""
        self.check("[s]\na=1\\\n", 2, "no line follows")

    def test_all_at_once(self) -> None:
        """Every bad line is reported, and the good ones are read all the same."""
        parsed = read("x\n[s]\ny\na=1\n[t\n")
        self.assertEqual(len(parsed.problems), 3)
        self.assertEqual(list(parsed.merged("s")), ["a"])


plain = st.text(st.characters(exclude_categories=["Cs"]), max_size=20).map(
    lambda text: text.strip("".join(map(chr, range(33))))
)
names = st.from_regex("[A-Za-z][A-Za-z0-9.=-]{0,8}", fullmatch=True)
keys = st.from_regex("[A-Za-z][A-Za-z0-9.]{0,8}", fullmatch=True)


class RoundTripTests(SynchronousTestCase):
    """Writing and reading back."""

    @given(st.dictionaries(names, st.dictionaries(keys, plain, max_size=4), max_size=4))
    def test_what_is_written_is_read(self, sections: dict[str, dict[str, str]]) -> None:
        """Any values come back from a written file, control characters included."""
        parsed = parse_ini(render_ini(sections).encode(), "a.ini")
        self.assertEqual(parsed.problems, ())
        self.assertEqual(list(parsed.sections), list(sections))
        for name, wanted in sections.items():
            found = {k: e.value for k, e in parsed.merged(name).items()}
            self.assertEqual(found, wanted)

    @given(st.binary(max_size=80))
    def test_no_bytes_raise(self, raw: bytes) -> None:
        """Whatever the bytes are, parsing ends in entries and problems."""
        parsed = parse_ini(raw, "a.ini")
        for entry in parsed.entries:
            self.assertTrue(entry.key)
