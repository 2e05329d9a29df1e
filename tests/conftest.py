# SPDX-License-Identifier: Apache-2.0
"""What all folders share: pytest puts this one on the path, and prints what was counted after the tests."""
import pytest
from tally import Tally

TALLY = Tally()


@pytest.fixture(scope="session")
def tally() -> Tally:
    return TALLY


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for line in TALLY.tables():
        terminalreporter.write_line(line)
