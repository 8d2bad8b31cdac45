"""Fields of settings that check what they are given: ValueError for what cannot be."""

from __future__ import annotations

from typing import Any

from attrs import Attribute, field


def positive(_owner: object, attribute: Attribute[Any], value: float) -> None:
    """A validator: more than 0."""
    if not value > 0:
        raise ValueError(f"{attribute.name} must be more than 0, not {value}")


def not_negative(_owner: object, attribute: Attribute[Any], value: float) -> None:
    """A validator: 0 or more."""
    if not value >= 0:
        raise ValueError(f"{attribute.name} must not be negative, not {value}")


def positive_or_none(
    _owner: object, attribute: Attribute[Any], value: float | None
) -> None:
    """A validator: more than 0, if it is given at all."""
    if value is not None:
        positive(_owner, attribute, value)


def seconds(default: float) -> Any:
    """A field for a time, more than 0."""
    return field(default=default, validator=positive)


def count(default: int) -> Any:
    """A field for a number of something, 1 or more."""
    return field(default=default, validator=positive)
