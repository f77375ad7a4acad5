"""Whole runs of a synthetic population at growing shares: seconds by stage, growth exponent, peak memory.

    python tests/benchmarks/benchmark_runs.py [--like 1940|2020-state] [--shares 1/100,1/10,1] [--keep DIR]

Prints Markdown tables. Every run is a process of its own (`das-spark run`), so its start and memory are its own. Memory
is the largest resident set of each process as the kernel counts it, sampled every half second.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
COMMAND = [str(Path(sys.executable).with_name("das-spark"))]
#: Population -> run file, further options of the simulator, settings, usual shares. The state has 1,000, 10,000 and
#: 100,000 blocks in these shares, about.
LIKE = {
    "1940": ("conf/e2e_1940_simulated.toml", [], [], "1/100,1/10,1"),
    "2020-state": (
        "conf/pl94_2020_simulated.toml",
        ["--layout", "cef"],
        ["budget.strategy=state"],
        "1/380,1/38,1/4",
    ),
}


def resident(pid):
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in text.splitlines() if line.startswith("VmHWM")), 0) / 1e6


def descendants(pid):
    """Processes below one, whichever of its threads began them: a JVM forks from many."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {pid}


def name_of(pid):
    try:
        text = Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return "gone"
    return "jvm" if "java" in text.split(" ")[0] else "worker" if "pyspark" in text else "driver"


def watch(process, peaks, ended):
    while not ended.wait(0.5):
        for pid in {process.pid} | descendants(process.pid):
            kind = name_of(pid)
            peaks[kind] = max(peaks.get(kind, 0.0), resident(pid))


def run(like, share, folder):
    conf, options, settings, _ = LIKE[like]
    population = folder / f"population-{share.replace('/', '-')}"
    simulate = ["simulate", "--like", like, "--share", share, "--out", str(population), *options]
    subprocess.run([*COMMAND, *simulate], check=True, cwd=ROOT, capture_output=True)
    run_id = f"share-{share.replace('/', '-')}"
    settings = [f"input.path={population}", f"output.root={folder / 'runs'}", *settings]
    arguments = ["run", conf, "--run-id", run_id, "--test-key", "benchmark"]
    arguments += [part for setting in settings for part in ("--set", setting)]
    peaks, ended = {}, threading.Event()
    start = time.monotonic()
    process = subprocess.Popen([*COMMAND, *arguments], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    watcher = threading.Thread(target=watch, args=(process, peaks, ended))
    watcher.start()
    _, errors = process.communicate()
    seconds = time.monotonic() - start
    ended.set()
    watcher.join()
    if process.returncode:
        sys.exit(errors.decode())
    public = json.loads((folder / "runs" / run_id / "public" / "manifest.json").read_text())
    restricted = json.loads((folder / "runs" / run_id / "restricted" / "manifest.json").read_text())
    return {
        "share": share,
        "persons": public["rows"]["microdata/person.parquet"],
        "levels": {level: public["rows"][f"geounits/{level}"] for level in public["config"]["geography"]["levels"]},
        "geounits": public["rows"][f"geounits/{public['config']['geography']['levels'][-1]}"],
        "seconds": seconds,
        "stages": restricted["seconds"],
        "peaks": peaks,
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--like", choices=list(LIKE), default="1940")
    parser.add_argument("--shares")
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        results = [run(given.like, share, folder) for share in (given.shares or LIKE[given.like][-1]).split(",")]
    print("| share | persons | lowest geounits | whole run, s | driver GB | JVM GB | largest Python worker GB |")
    print("|---|---|---|---|---|---|---|")
    for each in results:
        memory = " | ".join(f"{each['peaks'].get(kind, 0):.2f}" for kind in ("driver", "jvm", "worker"))
        print(f"| {each['share']} | {each['persons']:,} | {each['geounits']:,} | {each['seconds']:.0f} | {memory} |")
    for first, last in itertools.pairwise(results):
        exponent = math.log(last["seconds"] / first["seconds"]) / math.log(last["geounits"] / first["geounits"])
        print(f"\nGrowth exponent of the whole run from share {first['share']} to {last['share']}: {exponent:.2f}\n")
    print(
        "| stage | "
        + " | ".join(f"{result['share']}, s" for result in results)
        + " | microseconds a geounit, largest |"
    )
    print("|---" * (len(results) + 2) + "|")
    for stage in results[-1]["stages"]:
        seconds = [result["stages"].get(stage, 0.0) for result in results]
        level = stage.split(" ")[-1]
        count = results[-1]["levels"].get(level)
        each_unit = f"{1e6 * seconds[-1] / count:,.0f}" if count else ""
        print(f"| {stage} | " + " | ".join(f"{value:.1f}" for value in seconds) + f" | {each_unit} |")


if __name__ == "__main__":
    main()
