"""Processes that carry out functions of tasks: what they give, what they keep, and how they end."""

from __future__ import annotations

import gc
import itertools
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from threading import Barrier

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from das_spark.errors import EstimationError, SessionError, TaskError
from das_spark.spark.worker_pool import WorkerPool, _Channel

# Workers cannot import this module, by whatever name pytest has given it.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


@pytest.fixture(scope="module")
def pool():
    made = WorkerPool(8, ["das_spark.errors"])
    made.warm(2)
    yield made
    made.close()


def carried_out(pool, function, batches=()):
    return list(pool.carry_out(cloudpickle.dumps(function), iter(batches)))


def numbers(*values):
    return pa.record_batch({"n": pa.array(values, pa.int64())})


def told(value):
    return pa.record_batch({"told": [value]})


def only(batches):
    (batch,) = batches
    return batch.column("told")[0].as_py()


def process_of(pool):
    return only(carried_out(pool, lambda _: [told(os.getpid())]))


def is_there(process):
    """Whether a process has not ended; one that nobody has waited for yet has."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def ends(process):
    for _ in range(500):
        if not is_there(process):
            return True
        time.sleep(0.01)
    return False


def doubled(batches):
    for batch in batches:
        yield numbers(*(2 * value for value in batch.column("n").to_pylist()))


def every_type():
    columns = {
        "text": pa.array(["a", None, "c"]),
        "code": pa.array(["x", "y", "x"]).dictionary_encode(),
        "codes": pa.array([["x"], None, []], pa.list_(pa.dictionary(pa.int32(), pa.string()))),
        "list": pa.array([[1, 2], [], None], pa.list_(pa.int64())),
        "struct": pa.array([{"a": 1, "b": [b"z"]}, None, {"a": None, "b": []}]),
        "binary": pa.array([b"", b"\0\xff", None], pa.binary()),
        "null": pa.nulls(3),
        "flag": pa.array([True, None, False]),
    }
    return pa.record_batch(columns).replace_schema_metadata({"kept": "as it is"})


@pytest.mark.parametrize(
    "batches",
    [
        [],
        [numbers()],
        [numbers(1, 2), numbers(), numbers(3)],
        [numbers(each) for each in range(500)],
        [numbers(*range(300_000))],
        [every_type(), every_type().slice(1, 1), every_type().slice(3)],
        [pa.RecordBatch.from_struct_array(pa.array([{}, {}], pa.struct([])))],
    ],
    ids=["none", "empty", "few", "many", "large", "types", "no columns"],
)
def test_batches_come_back_as_they_were(pool, batches):
    found = carried_out(pool, lambda given: given, batches)
    assert len(found) == len(batches)
    for left, right in zip(found, batches, strict=True):
        assert left.equals(right, check_metadata=True)
        left.validate(full=True)


def test_a_message_arrives_whole_though_signals_come_while_it_is_sent():
    before = signal.signal(signal.SIGALRM, lambda *_: None)
    ours, theirs = socket.socketpair()
    sent = bytes(range(256)) * 40_000

    def received():
        time.sleep(0.1)
        channel = _Channel(theirs)
        return channel.receive(), channel.payload().to_pybytes()

    try:
        with ours, theirs, ThreadPoolExecutor(1) as threads:
            found = threads.submit(received)
            signal.setitimer(signal.ITIMER_REAL, 0.02, 0.001)
            _Channel(ours).send(b"X", sent)
            signal.setitimer(signal.ITIMER_REAL, 0)
            assert found.result() == (b"X", sent)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_functions_give_what_they_give_here(pool):
    def rows_and_sum(batches):
        values = [value for batch in batches for value in batch.column("n").to_pylist()]
        yield numbers(*values)
        yield numbers(sum(values))

    for function in (doubled, rows_and_sum, lambda _: iter(()), lambda batches: [next(batches)]):
        given = [numbers(1, 2), numbers(3)]
        assert carried_out(pool, function, given) == list(function(iter(given)))


def test_batches_are_asked_for_when_the_function_asks(pool):
    asked = []

    def batches():
        for each in range(3):
            asked.append(each)
            yield numbers(each)

    work = cloudpickle.dumps(lambda given: [next(given)])
    results = pool.carry_out(work, batches())
    assert asked == []
    assert list(results) == [numbers(0)]
    assert asked == [0]


def test_tasks_of_threads_are_in_processes_of_their_own_at_the_same_time(pool):
    together = Barrier(4)

    def batches():
        together.wait(30)  # none goes on before all are at work
        yield numbers(1)

    def process(given):
        list(given)
        yield told(os.getpid())

    with ThreadPoolExecutor(4) as threads:
        tasks = [threads.submit(carried_out, pool, process, batches()) for _ in range(4)]
        processes = {only(task.result()) for task in tasks}
    assert len(processes) == 4
    assert os.getpid() not in processes
    assert process_of(pool) in processes, "workers are used again"


def test_tasks_may_be_chained(pool):
    work = cloudpickle.dumps(doubled)
    batches = iter([numbers(each) for each in range(20)])
    for _ in range(3):
        batches = pool.carry_out(work, batches)
    assert list(batches) == [numbers(8 * each) for each in range(20)]


class OfTheTestError(ValueError):
    pass


def test_an_error_comes_as_it_was_raised_and_its_worker_stays(pool):
    before = process_of(pool)
    for error in (EstimationError("no solution", hint="wait"), OfTheTestError("odd"), OSError(28, "full")):

        def fails(batches, error=error):
            yield from batches
            raise error

        results = pool.carry_out(cloudpickle.dumps(fails), iter([numbers(1)]))
        assert next(results) == numbers(1)
        with pytest.raises(type(error)) as caught:
            next(results)
        assert str(caught.value) == str(error)
        assert process_of(pool) == before


def test_what_is_no_function_or_no_batch_is_an_error_of_the_task(pool):
    before = process_of(pool)
    with pytest.raises(ModuleNotFoundError, match="not_there"):
        list(pool.carry_out(b"cnot_there\nname\n.", iter(())))
    with pytest.raises(AttributeError):
        carried_out(pool, lambda _: ["no batch"])
    with pytest.raises(TypeError):
        carried_out(pool, lambda _: None)
    assert process_of(pool) == before


def test_no_value_gets_out_by_an_error_that_cannot_be_pickled(capfd):
    class NotPickledError(ValueError):
        def __reduce__(self):
            raise TypeError(f"of {self}")

    class NotReadError(ValueError):
        def __init__(self, people, _homes):
            super().__init__(f"{people} people")

    class NoLongerAnError(ValueError):
        def __reduce__(self):
            return str, ("31337 people",)

    def fails(kind, values):
        def function(_):
            raise kind(*values)
            yield

        return function

    pool = WorkerPool(8)
    before = process_of(pool)
    cases = [(NotPickledError, ["31337"]), (NotReadError, ["31337", 1]), (NoLongerAnError, ["31337"])]
    for kind, values in cases:
        with pytest.raises(RuntimeError) as caught:
            carried_out(pool, fails(kind, values))
        assert isinstance(caught.value, TaskError)
        assert kind.__name__ in str(caught.value)
        assert "31337" not in "".join(traceback.format_exception(caught.value))
        assert "31337" not in repr((caught.value.__context__, caught.value.__cause__))
    assert process_of(pool) == before
    pool.close()
    assert "31337" not in "".join(capfd.readouterr())


def endless(_):
    while True:
        yield told(os.getpid())


def test_a_worker_whose_results_nobody_wants_is_ended(pool):
    results = pool.carry_out(cloudpickle.dumps(endless), iter(()))
    process = only([next(results)])
    assert is_there(process)
    results.close()
    assert ends(process)
    assert process_of(pool) != process


def test_a_worker_that_nobody_waits_for_is_ended_in_the_middle_of_its_work(pool):
    def never_ends(_):
        yield told(os.getpid())
        while True:
            pass

    results = pool.carry_out(cloudpickle.dumps(never_ends), iter(()))
    process = only([next(results)])
    results.close()
    assert ends(process)


def test_of_a_chain_that_nobody_wants_all_workers_are_ended(pool):
    def with_own(batches):
        for batch in batches:
            yield pa.record_batch({"of": batch.column("told"), "told": [os.getpid()]})

    inner = pool.carry_out(cloudpickle.dumps(endless), iter(()))
    outer = pool.carry_out(cloudpickle.dumps(with_own), inner)
    del inner
    (processes,) = next(outer).to_pylist()
    del outer
    gc.collect()
    assert all(ends(process) for process in processes.values())


def test_an_error_of_what_a_task_is_given_ends_its_worker(pool):
    def batches():
        yield numbers(1)
        raise OSError("cannot be read")

    def first_process(given):
        next(given)
        yield told(os.getpid())
        yield from given

    results = pool.carry_out(cloudpickle.dumps(first_process), batches())
    process = only([next(results)])
    with pytest.raises(OSError, match=r"^cannot be read$"):
        next(results)
    assert ends(process)
    assert carried_out(pool, doubled, [numbers(1)]) == [numbers(2)]


def test_a_worker_that_is_killed_is_an_error_of_the_session(pool):
    def killed(batches):
        yield next(batches)
        os.kill(os.getpid(), signal.SIGKILL)

    results = pool.carry_out(cloudpickle.dumps(killed), iter([numbers(1)]))
    assert next(results) == numbers(1)
    with pytest.raises(SessionError, match=r"ended before its task was done.*memory.*DAS_SPARK_ENGINE=spark"):
        next(results)
    assert carried_out(pool, doubled, [numbers(1)]) == [numbers(2)]


def test_an_idle_worker_that_was_killed_is_not_taken(pool):
    process = process_of(pool)
    os.kill(process, signal.SIGKILL)
    assert ends(process)
    assert process_of(pool) != process


def test_workers_have_one_thread_each_and_leave_interrupts_to_this_process(pool):
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    before = dict(os.environ)

    def variables(_):
        os.kill(os.getpid(), signal.SIGINT)
        yield told([os.environ.get(name) for name in names])

    assert only(carried_out(pool, variables)) == ["1"] * 4
    assert dict(os.environ) == before


@pytest.mark.parametrize("fails", [False, True])
def test_a_worker_keeps_no_memory_of_its_tasks(pool, fails):
    def large(batches):
        kept = list(batches)
        kept.append((kept, bytearray(100_000_000)))  # a circle, which no counting of references frees
        if fails:
            raise ValueError(f"{len(kept)} kept")
        yield numbers(len(kept))

    def size(_):
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        yield told([os.getpid(), pages * os.sysconf("SC_PAGE_SIZE"), pa.total_allocated_bytes()])

    before = only(carried_out(pool, size))
    with pytest.raises(ValueError, match="2 kept") if fails else nullcontext():
        carried_out(pool, large, [numbers(*range(1_000_000))])
    after = only(carried_out(pool, size))
    assert after[0] == before[0]
    assert after[1] < before[1] + 20_000_000
    assert after[2] < 1_000_000


def test_modules_are_imported_once_before_the_first_worker_is_forked(tmp_path, monkeypatch):
    (tmp_path / "of_the_pool.py").write_text("import os\nprocess = os.getpid()\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    def processes(batches):
        before = [each for batch in batches for each in batch.column("told")[0].as_py()]
        module = sys.modules["of_the_pool"]  # imported by nobody here
        yield told([*before, module.process, os.getppid(), os.getpid(), gc.get_freeze_count()])

    pool = WorkerPool(8, ["of_the_pool"])
    try:
        inner = pool.carry_out(cloudpickle.dumps(processes), iter(()))
        imported, server, one, _, imported_of_other, server_of_other, other, frozen = only(
            carried_out(pool, processes, inner)
        )
    finally:
        pool.close()
    assert {imported, server, imported_of_other, server_of_other} == {server}
    assert len({os.getpid(), server, one, other}) == 4
    assert frozen > 10_000


def test_closing_ends_all_workers_and_what_they_do():
    pool = WorkerPool(8)
    pool.warm(3)
    results = pool.carry_out(cloudpickle.dumps(endless), iter(()))
    at_work, idle = only([next(results)]), process_of(pool)
    pool.close()
    assert not is_there(at_work)
    assert not is_there(idle)
    pool.close()
    with pytest.raises(SessionError, match="ended before its task was done"):
        list(results)
    with pytest.raises(SessionError, match="have been ended"):
        carried_out(pool, doubled)


def test_closing_does_not_wait_for_imports(tmp_path, monkeypatch):
    (tmp_path / "slow_to_import.py").write_text("import time\ntime.sleep(60)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    pool = WorkerPool(8, ["slow_to_import"])
    began = time.monotonic()
    pool.warm(2)
    pool.close()
    assert time.monotonic() - began < 10


def test_a_server_that_ended_is_started_again():
    pool = WorkerPool(8)
    try:
        server, worker = only(carried_out(pool, lambda _: [told([os.getppid(), os.getpid()])]))
        os.kill(server, signal.SIGKILL)
        assert ends(server)
        assert process_of(pool) == worker, "its workers go on"
        inner = pool.carry_out(cloudpickle.dumps(doubled), iter([numbers(1)]))
        assert carried_out(pool, doubled, inner) == [numbers(4)]
    finally:
        pool.close()
    assert ends(worker)


@pytest.mark.parametrize("way", ["file", "command", "module"])
def test_workers_end_with_the_process_that_started_them_whose_program_they_do_not_run(way, tmp_path):
    program = textwrap.dedent("""
        import os, signal
        print("begun", flush=True)
        import pyarrow as pa
        from pyspark import cloudpickle
        from das_spark.spark.worker_pool import WorkerPool
        def endless(_):
            while True:
                yield pa.record_batch({"process": [os.getpid()]})
        def busy(batches):
            for batch in batches:
                yield batch
                while True:
                    pass
        pool = WorkerPool(8)
        pool.warm(2)
        inner = pool.carry_out(cloudpickle.dumps(endless), iter(()))
        print(next(inner)["process"][0], flush=True)
        results = pool.carry_out(cloudpickle.dumps(busy), iter([pa.record_batch({"n": [1]})]))
        next(results)
        os.kill(os.getpid(), signal.SIGKILL)
    """)
    (tmp_path / "program.py").write_text(program)
    started = {"file": ["program.py"], "command": ["-c", program], "module": ["-m", "program"]}[way]
    done = subprocess.run([sys.executable, *started], stdout=subprocess.PIPE, text=True, cwd=tmp_path, check=False)
    # Its end is read: no process holds the standard output any more.
    begun, process = done.stdout.split()
    assert (done.returncode, begun) == (-signal.SIGKILL, "begun")
    assert not is_there(int(process))


def test_a_pool_that_is_not_closed_ends_with_the_program():
    program = (
        "from das_spark.spark.worker_pool import WorkerPool; pool = WorkerPool(8); pool.warm(2); "
        "import pyarrow as pa; from pyspark import cloudpickle; "
        "print(list(pool.carry_out(cloudpickle.dumps(lambda b: b), iter([pa.record_batch({'n': [1]})]))))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30)
    assert "n: [1]" in done.stdout
    assert done.stderr == ""


def sleeps(batches):
    """Begins and ends of what is done for each batch."""
    for _ in batches:
        began = time.monotonic()
        time.sleep(0.1)
        yield pa.record_batch({"began": [began], "ended": [time.monotonic()]})


def test_only_so_many_compute_at_once_as_are_asked_for():
    pool = WorkerPool(1)
    work = cloudpickle.dumps(sleeps)
    with ThreadPoolExecutor(3) as threads:
        found = list(threads.map(lambda _: list(pool.carry_out(work, iter([numbers(1)] * 2))), range(3)))
    pool.close()
    spans = sorted(
        (each.column("began")[0].as_py(), each.column("ended")[0].as_py()) for task in found for each in task
    )
    assert len(spans) == 6
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans))


def test_a_task_that_waits_for_another_lets_it_compute():
    pool = WorkerPool(1)
    work = cloudpickle.dumps(doubled)
    chained = pool.carry_out(work, pool.carry_out(work, pool.carry_out(work, iter([numbers(1), numbers(2)]))))
    assert [each.column("n").to_pylist() for each in chained] == [[8], [16]]
    pool.close()
