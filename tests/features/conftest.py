"""Plans and runs that tests of other folders make are modules of theirs: put them where tests can import them."""

from __future__ import annotations

import sys
from pathlib import Path

for _folder in ("config", "spark"):
    sys.path.insert(0, str(Path(__file__).parent.parent / _folder))
