"""A process that is das_spark's alone: its numbers depend neither on cores nor on the processor."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from das_spark import process
from das_spark.process import KERNELS, ONE_THREAD, same_numbers

#: Prints the kernels and threads of numpy's OpenBLAS, by what the library says.
TOLD = """
import ctypes, re
import numpy
for path in set(re.findall(r"/\\S*openblas\\S*", open("/proc/self/maps").read())):
    library, end = ctypes.CDLL(path), "64_" if "openblas64_" in path else ""
    named = getattr(library, f"scipy_openblas_get_corename{end}")
    named.restype = ctypes.c_char_p
    print(named().decode(), getattr(library, f"scipy_openblas_get_num_threads{end}")())
"""
GUARDED = "from das_spark.process import guard_process; guard_process()\n"


def told(program: str, **variables: str) -> set[str]:
    environment = {name: value for name, value in os.environ.items() if name not in (*ONE_THREAD, KERNELS)}
    command = [sys.executable, "-c", program]
    return set(subprocess.check_output(command, env=environment | variables, text=True).splitlines())


@pytest.mark.skipif(KERNELS not in same_numbers(), reason="this processor lacks instructions of the shared kernels")
def test_a_guarded_process_has_one_thread_and_the_kernels_that_processors_share():
    assert told(GUARDED + TOLD, OPENBLAS_NUM_THREADS="2", OMP_NUM_THREADS="2") == {"Haswell 1"}
    assert told(GUARDED + TOLD, OPENBLAS_CORETYPE="Sandybridge") == {"Sandybridge 1"}, "who names kernels keeps them"
    assert told(TOLD, OPENBLAS_CORETYPE="Sandybridge", OPENBLAS_NUM_THREADS="2") == {
        f"Sandybridge {min(2, os.cpu_count() or 1)}"
    }, "what is told is not always the same"


def test_a_processor_that_lacks_the_instructions_keeps_its_own_kernels(monkeypatch):
    monkeypatch.delenv(KERNELS, raising=False)
    monkeypatch.setattr("das_spark.process._INSTRUCTIONS", frozenset(("avx2", "of no processor")))
    monkeypatch.setattr("das_spark.process._shared_kernels", process._shared_kernels.__wrapped__)
    assert same_numbers() == ONE_THREAD
