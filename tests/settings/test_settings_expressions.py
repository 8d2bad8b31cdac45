"""Numbers and flags written as expressions (spec configuration 2, value types)."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from metatwist.broker.settings.expressions import (
    ExpressionError,
    boolean,
    whole_number,
)

Tree = int | tuple["Tree", str, "Tree"]
trees: st.SearchStrategy[Tree] = st.recursive(
    st.integers(-1000, 1000),
    lambda inner: st.tuples(inner, st.sampled_from("+-*/"), inner),
    max_leaves=8,
)


def written(tree: Tree) -> str:
    """The tree as an expression with all its parentheses."""
    if isinstance(tree, int):
        return str(tree)
    left, sign, right = tree
    return f"({written(left)} {sign} {written(right)})"


def exact(tree: Tree) -> Fraction | None:
    """The value of the tree, None as soon as a step is no whole number."""
    if isinstance(tree, int):
        return Fraction(tree)
    left, right = exact(tree[0]), exact(tree[2])
    if left is None or right is None or (tree[1] == "/" and right == 0):
        return None
    operations = {
        "+": lambda: left + right,
        "-": lambda: left - right,
        "*": lambda: left * right,
        "/": lambda: left / right,
    }
    value = operations[tree[1]]()
    return value if value.denominator == 1 else None


class WholeNumberTests(SynchronousTestCase):
    """`whole_number`."""

    def test_values(self) -> None:
        """Operators bind and group as in arithmetic, % has the sign of its left."""
        for text, value in {
            "1024*1024*1024": 1 << 30,
            " 7 ": 7,
            "-5": -5,
            "--5": 5,
            "2+3*4": 14,
            "(2+3)*4": 20,
            "10-3-2": 5,
            "8/2/2": 2,
            "-8/2": -4,
            "7%3": 1,
            "-7%3": -1,
            "7%-3": 1,
            "2*-3": -6,
            "0x10": 16,
            "007": 7,
        }.items():
            self.assertEqual(whole_number(text), value, text)

    def test_refused(self) -> None:
        """What is no arithmetic on whole numbers is refused with a reason."""
        for text, reason in {
            "1.5": "1.5 is not a whole number",
            "7/2": "7 / 2 is not a whole number",
            "1/0": "1 / 0 has no value",
            "1%0": "1 % 0 has no value",
            "12a": "`12a` is not a whole number",
            "1e3": "not a whole number",
            "1 ; x": "(at `; x`)",
            "__import__('os')": "not a whole number",
            "1 2": "where nothing or an operator should be",
            "(1": "unclosed parenthesis",
            "1)": "has `)` where",
            "1+": "ends where a number should be",
            "": "ends where a number should be",
            "*2": "has `*` where a number should be",
            "2**3": "has `*` where a number should be",
            "\u0661": "not a whole number",
        }.items():
            error = self.assertRaises(ExpressionError, whole_number, text)
            self.assertIn(reason, str(error), text)

    def test_width(self) -> None:
        """A value that does not fit the width is refused and never narrowed."""
        self.assertEqual(whole_number("2147483647", 32), 2147483647)
        self.assertEqual(whole_number("-2147483648", 32), -2147483648)
        self.assertEqual(whole_number("2147483648", 64), 2147483648)
        for text, bits in (("1024*1024*1024*2", 32), ("9223372036854775807+1", 64)):
            error = self.assertRaises(ExpressionError, whole_number, text, bits)
            self.assertIn(f"does not fit {bits} bits", str(error))

    def test_bounded_work(self) -> None:
        """Neither length nor depth of a text can exhaust the reader."""
        for text in ("1" * 201, "(" * 100, "-" * 100 + "1"):
            self.assertRaises(ExpressionError, whole_number, text)

    @given(trees)
    def test_agrees_with_exact_arithmetic(self, tree: Tree) -> None:
        """A result is the exact one, and there is none when a step is not whole."""
        text, value = written(tree), exact(tree)
        if len(text) > 200 or value is None:
            self.assertRaises(ExpressionError, whole_number, text, 256)
        else:
            self.assertEqual(whole_number(text, 256), value)


class BooleanTests(SynchronousTestCase):
    """`boolean`."""

    def test_values(self) -> None:
        """Only the two lower-case words are flags."""
        self.assertIs(boolean("true"), True)
        self.assertIs(boolean("false"), False)
        for text in ("True", "yes", "1", ""):
            self.assertRaises(ExpressionError, boolean, text)
