"""Values written as small expressions (spec configuration 2, value types).

Whole numbers may be arithmetic (`1024*1024`). Every step must stay a whole number, and
nothing is narrowed silently: what does not fit is an error.
"""

from __future__ import annotations

import re

INT_BITS = 32
LONG_BITS = 64
_LONGEST = 200
_DEEPEST = 32
_TOKEN = re.compile(r"\s*(?:(0x[0-9a-fA-F]+|[0-9]+)(\.[0-9]*)?|([-+*/%()]))")


class ExpressionError(ValueError):
    """The text is no expression of the wanted type; the message says why."""


def whole_number(text: str, bits: int = LONG_BITS) -> int:
    """The value of an arithmetic expression, which must fit `bits` with its sign.

    Knows `+ - * / %`, parentheses and the minus sign; `%` has the sign of its left
    side as in Java. Raises `ExpressionError`.
    """
    tokens = _tokens(text)
    value = _Arithmetic(tokens, text).value()
    limit = 1 << (bits - 1)
    if not -limit <= value < limit:
        raise ExpressionError(
            f"{value} does not fit {bits} bits ({-limit} to {limit - 1})"
        )
    return value


def boolean(text: str) -> bool:
    """`true` or `false` in lower case. Raises `ExpressionError`."""
    if text not in ("true", "false"):
        raise ExpressionError(f"`{text}` is neither true nor false")
    return text == "true"


def _tokens(text: str) -> list[str]:
    if len(text) > _LONGEST:
        raise ExpressionError(f"the expression is longer than {_LONGEST} characters")
    tokens: list[str] = []
    position = 0
    while text[position:].strip():
        found = _TOKEN.match(text, position)
        if found is None:
            rest = text[position:].strip()
            raise ExpressionError(
                f"`{text}` is not a whole number or arithmetic on them (at `{rest}`)"
            )
        digits, fraction, sign = found.groups()
        if fraction is not None:
            raise ExpressionError(f"{digits}{fraction} is not a whole number")
        tokens.append(digits or sign)
        position = found.end()
    return tokens


class _Arithmetic:
    """A recursive descent over the tokens of one expression."""

    def __init__(self, tokens: list[str], text: str) -> None:
        self._tokens = tokens
        self._text = text
        self._next = 0
        self._depth = 0

    def value(self) -> int:
        result = self._sum()
        if self._next < len(self._tokens):
            raise ExpressionError(
                f"`{self._text}` has `{self._tokens[self._next]}` where nothing or "
                "an operator should be"
            )
        return result

    def _sum(self) -> int:
        result = self._product()
        while (sign := self._take("+", "-")) is not None:
            right = self._product()
            result = result + right if sign == "+" else result - right
        return result

    def _product(self) -> int:
        result = self._factor()
        while (sign := self._take("*", "/", "%")) is not None:
            result = _multiplied(result, sign, self._factor())
        return result

    def _factor(self) -> int:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ExpressionError(f"the expression nests deeper than {_DEEPEST}")
        if self._take("-") is not None:
            result = -self._factor()
        elif self._take("(") is not None:
            result = self._sum()
            if self._take(")") is None:
                raise ExpressionError(f"`{self._text}` has an unclosed parenthesis")
        else:
            result = self._number()
        self._depth -= 1
        return result

    def _number(self) -> int:
        if self._next == len(self._tokens):
            raise ExpressionError(f"`{self._text}` ends where a number should be")
        token = self._tokens[self._next]
        if not token[0].isdigit():
            raise ExpressionError(
                f"`{self._text}` has `{token}` where a number should be"
            )
        self._next += 1
        return int(token, 16 if token.startswith("0x") else 10)

    def _take(self, *wanted: str) -> str | None:
        if self._next < len(self._tokens) and self._tokens[self._next] in wanted:
            self._next += 1
            return self._tokens[self._next - 1]
        return None


def _multiplied(left: int, sign: str, right: int) -> int:
    if sign == "*":
        return left * right
    if right == 0:
        raise ExpressionError(f"{left} {sign} 0 has no value")
    quotient, remainder = divmod(abs(left), abs(right))
    if sign == "%":
        return -remainder if left < 0 else remainder
    if remainder:
        raise ExpressionError(f"{left} / {right} is not a whole number")
    return -quotient if (left < 0) != (right < 0) else quotient
