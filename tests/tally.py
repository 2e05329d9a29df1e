# SPDX-License-Identifier: Apache-2.0
"""Counts what tests tried and what each try got, for the tables of docs/reliability.md."""
import collections
from collections.abc import Iterator


class Tally:
    """A test calls `tally("Disk full", "fit", "refused, old bundle intact")` once for each case, after its checks."""

    def __init__(self) -> None:
        self._sections: dict[str, dict[str, collections.Counter[str]]] = {}  # section -> case -> outcome -> times

    def __call__(self, section: str, case: str, outcome: str, times: int = 1) -> None:
        self._sections.setdefault(section, {}).setdefault(case, collections.Counter())[outcome] += times

    def tables(self) -> Iterator[str]:
        """The lines of one table for each section."""
        for section, cases in self._sections.items():
            yield f"\n### {section}: {sum(outcomes.total() for outcomes in cases.values())} cases\n"
            yield "| case | tried | what it gets |\n|---|---|---|"
            for case, outcomes in cases.items():
                found = "; ".join(f"{outcome}: {times}" if len(outcomes) > 1 else outcome
                                  for outcome, times in outcomes.items())
                yield f"| {case} | {outcomes.total()} | {found} |"
