"""Two transcripts side by side, and the steps where ours differs on purpose."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from .transcript import Step


@frozen
class Deviation:
    """An answer of ours that is not the reference's, and why it is right."""

    answer: str
    reason: str


LATER_ZXID = Deviation(
    "10000 ms, fresh id, 16-byte password, 37 bytes",
    "an embedded tree that was set up anew must not lock out whoever knew the old one",
)
STAYS = Deviation(
    "ok", "who tries an operation that is not there can go on without a new connection"
)
OWNER_STAYS = Deviation(
    "ok", "who does not know the password cannot cut off the owner of a session"
)
EMPTY_PATH = Deviation("refused", "the empty path is not another name of the root")
NO_TEXT = Deviation("refused", "a path that is no UTF-8 cannot be sent back")
NOT_MEASURED = Deviation("False", "what is not measured is not reported")

DEVIATIONS: Mapping[str, Deviation] = {
    "raw frames connecting: has seen a later zxid": LATER_ZXID,
    **{
        f"raw frames malformed: opcode {code}, then": STAYS
        for code in (77, 0, -1, 9999)
    },
    "raw sessions refused: the owner goes on": OWNER_STAYS,
    **{
        f"raw paths paths: empty: {name}": EMPTY_PATH
        for name in ("exists", "get", "list", "list2", "get acl")
    },
    "raw paths paths: no UTF-8: sync": NO_TEXT,
    **{
        f"words words: {words}": NOT_MEASURED
        for words in (
            "srvr Latency min/avg/max:",
            "stat Latency min/avg/max:",
            "mntr zk_avg_latency",
            "mntr zk_max_latency",
            "mntr zk_min_latency",
            "mntr zk_approximate_data_size",
        )
    },
}
"""By the name of the step, for the embedded coordinator."""


def differences(
    ours: list[Step],
    reference: list[Step],
    deviations: Mapping[str, Deviation] | None = None,
) -> list[str]:
    """What differs, a text each, in the order of the reference.

    A step with a deviation must have that answer, and the reference another one.
    """
    answered = {step.name: step.answer for step in ours}
    found = []
    for step in reference:
        expected = step.answer
        deviation = (deviations or {}).get(step.name)
        if deviation is not None:
            if expected == deviation.answer:
                found.append(f"{step.name}: no deviation any more")
            expected = deviation.answer
        answer = answered.pop(step.name, "never asked")
        if answer != expected:
            found.append(f"{step.name}\n  expected {expected}\n  answered {answer}")
    return found + [f"{name}: not in the reference" for name in answered]
