"""`doubles` is a module, not a test: put it where tests can import it."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "estimation")]
