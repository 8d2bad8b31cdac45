"""What holds for every test: no skips where they are forbidden, no deadlines.

With METATWIST_NO_SKIPS set, as CI does, a test that would be skipped fails with the
reason for the skip.
"""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest
from hypothesis import settings

settings.register_profile("metatwist", deadline=None)
settings.load_profile("metatwist")

_SKIPS_ARE_FAILURES = bool(os.environ.get("METATWIST_NO_SKIPS"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[
    None, pytest.TestReport, pytest.TestReport
]:
    """Judge each phase of a test."""
    report = yield
    if not hasattr(report, "wasxfail"):
        _forbid_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[
    None, pytest.CollectReport, pytest.CollectReport
]:
    """Judge the import of each module."""
    report = yield
    _forbid_skip(report)
    return report


def _forbid_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    if _SKIPS_ARE_FAILURES and report.skipped:
        reason = report.longrepr
        text = reason[2] if isinstance(reason, tuple) else str(reason)
        report.outcome = "failed"
        report.longrepr = f"skipped, and METATWIST_NO_SKIPS is set: {text}"
