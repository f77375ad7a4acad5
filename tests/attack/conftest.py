"""The small schemas of this folder are a module, not a test: put it where tests can import it."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
