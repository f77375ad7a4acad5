"""The targets of the simulated 1940 are modules of this folder, not tests: put them where tests can import them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
