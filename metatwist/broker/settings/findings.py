"""What a reader of the configuration has to say besides its result."""

from __future__ import annotations

from attrs import define, field


@define
class Findings:
    """Collects sentences: `problems` stop the start, `warnings` do not."""

    problems: list[str] = field(factory=list)
    warnings: list[str] = field(factory=list)
