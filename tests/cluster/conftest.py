"""Lets tests of this folder import the cluster, and gives them one archive of the environment."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
