# SPDX-License-Identifier: Apache-2.0
"""Types that many modules name."""
import os
from typing import Any

Path = str | os.PathLike[str]
Option = dict[str, Any]  # a line of a table of options: name, help, type, group, choices, default
