# SPDX-License-Identifier: Apache-2.0
"""Counts what tests tried and what each try got, and prints the tables of docs/reliability.md after the tests.

A conftest.py takes it in with `from tally import pytest_terminal_summary, tally`; a test calls
`tally("Disk full", "fit", "refused, old bundle intact")` once for each case, after its checks.
"""
import collections

import pytest

_seen = collections.defaultdict(collections.Counter)  # (section, case) -> outcome -> times


@pytest.fixture
def tally():
    def record(section, case, outcome, times=1):
        _seen[section, case][outcome] += times

    return record


def pytest_terminal_summary(terminalreporter):
    sections = {}
    for (section, case), outcomes in _seen.items():
        sections.setdefault(section, []).append((case, outcomes))
    for section, cases in sections.items():
        total = sum(outcomes.total() for _, outcomes in cases)
        terminalreporter.write_line(f"\n### {section}: {total} cases\n")
        terminalreporter.write_line("| case | tried | what it gets |\n|---|---|---|")
        for case, outcomes in cases:
            found = "; ".join(f"{outcome}: {times}" if len(outcomes) > 1 else outcome for outcome, times in outcomes.items())
            terminalreporter.write_line(f"| {case} | {outcomes.total()} | {found} |")
