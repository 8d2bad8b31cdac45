"""Topics, wildcard sections and retention policies."""

from __future__ import annotations

from settings_samples import MINIMAL, load, problems
from twisted.trial.unittest import SynchronousTestCase

from metatwist.broker.settings import RetentionPolicy, parse_policy
from metatwist.broker.settings.topic_names import compile_pattern


class PolicyTests(SynchronousTestCase):
    """`deletePolicy` (spec storage 13.1)."""

    def test_forms(self) -> None:
        """Hours are the unit when none is given, and only archives compress."""
        for text, policy in {
            "delete,168": RetentionPolicy("delete", 604800),
            "delete,30m": RetentionPolicy("delete", 1800),
            "delete,45s": RetentionPolicy("delete", 45),
            "archive,24": RetentionPolicy("archive", 86400),
            "archive,24h,TRUE": RetentionPolicy("archive", 86400, True),
            "archive,24,no": RetentionPolicy("archive", 86400),
        }.items():
            self.assertEqual(parse_policy(text), policy, text)

    def test_refused(self) -> None:
        """Unknown names, missing times and blanks behind a comma are refused."""
        for text, reason in {
            "delete": "names no time",
            "remove,1": "`remove` is no policy",
            " delete,1": "is no policy",
            "delete, 168": "` 168` is no time",
            "delete,1d": "`1d` is no time",
            "delete,-1": "is no time",
            "delete,1,true": "too many parts",
            "archive,1,true,x": "too many parts",
            "": "is no policy",
        }.items():
            error = self.assertRaises(ValueError, parse_policy, text)
            self.assertIn(reason, str(error), text)

    def test_text_reads_back(self) -> None:
        """A policy shown as text reads back as itself."""
        for text in ("delete,168h", "delete,90m", "archive,1s,true", "delete,0h"):
            self.assertEqual(str(parse_policy(text)), text)


class TopicTests(SynchronousTestCase):
    """`BrokerSettings.for_topic`."""

    def setUp(self) -> None:
        self.settings = load(
            MINIMAL
            + "[topic=news]\nnumPartitions=2\n"
            + "[topic=n*]\nnumPartitions=3\n"
            + "[topic=news-*]\nnumPartitions=4\nstat=true\n"
            + "[topic=log-\\\\d+-*]\nnumPartitions=5\n"
            + "[topic=a.b]\n[topic=c.d*]\n"
        )

    def partitions(self, name: str) -> int | None:
        """The partition count under which `name` is accepted."""
        found = self.settings.for_topic(name)
        return found.num_partitions if found else None

    def test_own_section_first(self) -> None:
        """A topic's own section holds even where patterns match."""
        self.assertEqual(self.partitions("news"), 2)

    def test_longest_pattern_wins(self) -> None:
        """Of several patterns the longest text gives the values."""
        self.assertEqual(self.partitions("nuts"), 3)
        self.assertEqual(self.partitions("news-sport"), 4)

    def test_pattern_values_and_own_name(self) -> None:
        """A matched topic has the values of the pattern's section and its own name."""
        found = self.settings.for_topic("news-sport")
        assert found is not None
        self.assertEqual((found.name, found.stat), ("news-sport", True))
        self.assertFalse(found.is_pattern)

    def test_rest_of_pattern_is_a_regular_expression(self) -> None:
        """Around the star a pattern is an expression that the whole topic matches."""
        self.assertEqual(self.partitions("log-42-x"), 5)
        self.assertIsNone(self.partitions("log-x-x"))
        self.assertIsNone(self.partitions("xlog-42-x"))
        self.assertEqual(self.partitions("cxd"), 1)

    def test_exact_names_are_literal(self) -> None:
        """Without a star a dot is a dot."""
        self.assertIsNotNone(self.settings.for_topic("a.b"))
        self.assertIsNone(self.settings.for_topic("axb"))

    def test_unmatched(self) -> None:
        """A topic without section and pattern is not accepted."""
        self.assertIsNone(self.settings.for_topic("other"))

    def test_unsafe_names(self) -> None:
        """A pattern never lets a name through that means something as a path."""
        every = load(MINIMAL + "[topic=*]\n")
        for name in ("", ".", "..", "../x", "a/b", "/", "a\0", "a\n", "a\x7f", "\x85"):
            self.assertIsNone(every.for_topic(name), repr(name))
        self.assertIsNone(every.for_topic("文" * 67))
        self.assertIsNone(every.for_topic("\ud800"))
        for name in ("文" * 66, "a..b", "...", "-", "a b", "x" * 200):
            self.assertIsNotNone(every.for_topic(name), repr(name))

    def test_bad_pattern(self) -> None:
        """A pattern that is no regular expression stops the start with its line."""
        (problem,) = problems(MINIMAL + "[topic=(a*]\n")
        self.assertIn("server.ini:11: [topic=(a*]: the pattern (a* is no", problem)

    def test_bad_exact_name(self) -> None:
        """A section whose topic cannot exist is a problem."""
        for name in ("a/b", "..", "a b", ""):
            (problem,) = problems(f"{MINIMAL}[topic={name}]\n")
            self.assertIn(f"`{name}` cannot be a topic", problem)


class PatternTests(SynchronousTestCase):
    """`compile_pattern`."""

    def test_agrees_with_plain_translation(self) -> None:
        """Patterns of several stars match exactly what `.*` for `*` would match."""
        for name, matching, other in (
            ("*", ["", "a"], []),
            ("a*", ["a", "ab"], ["ba"]),
            ("*a*b", ["ab", "xaxbb", "abab"], ["ba", "aba"]),
            ("a*a", ["aa", "aba"], ["a"]),
            ("**a.*c**", ["abc", "xaxyc"], ["ac"]),
            ("a\\.*b.", ["a.bx", "a.bbx"], ["abx", "a.b"]),
            ("(a|b)*c", ["ac", "bxc"], ["xc"]),
        ):
            pattern = compile_pattern(name)
            for text in matching:
                self.assertTrue(pattern.fullmatch(text), (name, text))
            for text in other:
                self.assertFalse(pattern.fullmatch(text), (name, text))

    def test_repeated_groups(self) -> None:
        """A repeated group is refused with its line, since it could take for ever;
        signs in a class or behind a backslash repeat nothing."""
        for name in ("(a+)+*", "*(?:a|b){2,}", "([a)](b))+*", "(?x)(a+) +*"):
            (problem,) = problems(f"{MINIMAL}[topic={name}]\n".replace("\\", "\\\\"))
            self.assertIn(f"server.ini:11: [topic={name}]: the pattern", problem)
            self.assertIn("repeats a group", problem)
        for name in ("(a|b)*", "[)+]*", "\\(a\\)+*", "[])+]*", "(a|b)?*", "(a\\)+)*"):
            compile_pattern(name)

    def test_hostile_names_cost_little(self) -> None:
        """Many stars do not multiply the ways in which a long name can fail."""
        pattern = compile_pattern("*a" * 30 + "*b")
        self.assertIsNone(pattern.fullmatch("a" * 200))
