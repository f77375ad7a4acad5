"""Run files that come with das_spark, known by name wherever it is installed."""

from __future__ import annotations

from pathlib import Path

_BESIDE, _WITHIN = Path(__file__).parents[2] / "conf", Path(__file__).parents[1] / "conf"
#: Run files, and Spark properties in `spark/`: a wheel has them within the package, a checkout beside it.
FOLDER = _WITHIN if _WITHIN.is_dir() else _BESIDE


def shipped_run_files() -> dict[str, Path]:
    """The run files that come with das_spark, by name."""
    return {path.stem: path for path in sorted(FOLDER.glob("*.toml"))}


def run_file_path(path: str | Path) -> Path:
    """Where a run file lies that is given by its path or, if it came with das_spark, by its bare name.

    A path is never looked for elsewhere: a run must not spend a budget on another file than the one that was meant.

    Args:
        path: A path, or a name without folder and ending such as `quickstart`.
    """
    given = Path(path)
    if given.exists() or given.name != str(path) or given.suffix:
        return given
    return shipped_run_files().get(given.name, given)
