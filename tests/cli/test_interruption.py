"""Ctrl-C, SIGTERM, SIGHUP: one sentence with the command that goes on, and nothing else, whatever Spark is doing."""

from __future__ import annotations

import json
import logging
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from das_spark.cli import runs
from das_spark.cli.interruption import LAUNCHER, Interrupted, resumable, resuming
from das_spark.cli.main import main
from das_spark.errors import EngineEndedError

ROOT = Path(__file__).parents[2]
PROGRAM = str(Path(sys.executable).with_name("das-spark"))
SECONDS = 240
#: Signals by which schedulers and closed terminals end a command -> its exit code.
ENDING = {signal.SIGTERM: 143, signal.SIGHUP: 129}
#: Words of which any kind of end has one.
OF_AN_END = ("interrupted", "Error", "ERROR", "Exception", "Traceback", "py4j", "Interrupt")
#: What stands there of every run before anybody interrupts it.
AT_THE_START = ("test key makes the noise predictable", "; log of the run: ")


@pytest.fixture(autouse=True)
def usual_signals() -> Iterator[None]:
    """What an interruption leaves of handlers and filters is undone."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, *ENDING)}
    filters = list(logging.getLogger().filters)
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)
    logging.getLogger().filters[:] = filters


def interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


class TestTheSentence:
    def test_a_run_that_was_given_no_name_is_named(self, monkeypatch, capsys, tmp_path):
        monkeypatch.setattr("das_spark.pipeline.run_stages", interrupt)
        arguments = ["run", "quickstart", "--set", f"output.root={tmp_path}/my runs"]
        assert main(arguments) == 130
        (line,) = capsys.readouterr().err.splitlines()
        begin, _, command = line.partition(": das-spark ")
        run_id = begin.removeprefix("das-spark: interrupted; run ").removesuffix(" goes on with")
        assert run_id.startswith("quickstart-2")
        assert shlex.split(command) == [*arguments, "--run-id", run_id]

    @pytest.mark.parametrize("named", [("--run-id", "mine"), ("--run-id=mine",)])
    def test_a_name_that_was_given_is_not_given_twice(self, monkeypatch, capsys, named):
        monkeypatch.setattr("das_spark.pipeline.run_stages", interrupt)
        assert main(["run", "quickstart", *named]) == 130
        expected = f"das-spark: interrupted; run mine goes on with: das-spark run quickstart {' '.join(named)}\n"
        assert capsys.readouterr().err == expected

    def test_what_was_started_by_a_script_goes_on_by_it(self, monkeypatch):
        monkeypatch.setenv(LAUNCHER, "./spark-submit.sh")
        command = resuming(["run", "conf/quickstart.toml"], "mine")
        assert command == "./spark-submit.sh conf/quickstart.toml --run-id mine"

    def test_a_sweep_goes_on_by_the_same_command(self, monkeypatch, capsys):
        monkeypatch.setattr("das_spark.pipeline.run_sweep", interrupt)
        arguments = ["sweep", "quickstart", "--epsilon", "1", "--out", "sweep"]
        assert main(arguments) == 130
        assert (
            capsys.readouterr().err == f"das-spark: interrupted; it goes on with: das-spark {shlex.join(arguments)}\n"
        )

    def test_what_cannot_go_on_is_interrupted_alone(self, monkeypatch, capsys):
        monkeypatch.setattr("das_spark.pipeline.verify_run", interrupt)
        assert main(["verify", "nowhere"]) == 130
        assert capsys.readouterr().err == "das-spark: interrupted\n"

    @pytest.mark.parametrize(("number", "code"), ENDING.items())
    @pytest.mark.parametrize("form", ["text", "json"])
    def test_a_signal_of_a_scheduler_or_a_terminal_is_one(self, monkeypatch, capsys, number, code, form):
        ended = []

        def work(*_: object, **__: object) -> None:
            try:
                os.kill(os.getpid(), number)
                time.sleep(SECONDS)
            finally:
                os.kill(os.getpid(), signal.SIGHUP)  # a session that is closed sends both
                ended.append("in order")

        signal.signal(number, signal.SIG_DFL)
        monkeypatch.setattr("das_spark.pipeline.run_stages", work)
        assert main(["run", "quickstart", "--run-id", "mine", f"--log-format={form}"]) == code
        (line,) = capsys.readouterr().err.splitlines()
        command = f"das-spark run quickstart --run-id mine --log-format={form}"
        if form == "text":
            assert line == f"das-spark: interrupted by {number.name}; run mine goes on with: {command}"
        else:
            event = json.loads(line)
            assert (event["exit_code"], event["hint"]) == (code, command)
            assert event["message"] == f"interrupted by {number.name}; run mine goes on with"
        assert ended == ["in order"]

    @pytest.mark.parametrize(("number", "code"), ENDING.items())
    @pytest.mark.parametrize("form", ["text", "json"])
    def test_a_signal_before_there_is_a_run_is_one(self, monkeypatch, capsys, number, code, form):
        signal.signal(number, signal.SIG_DFL)
        monkeypatch.setattr(runs, "load_run", lambda *_, **__: os.kill(os.getpid(), number))
        assert main(["run", "quickstart", f"--log-format={form}"]) == code
        assert f"interrupted by {number.name}" in capsys.readouterr().err

    def test_whoever_ignores_a_closed_terminal_goes_on(self):
        """As `nohup` has it."""
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        assert main(["--version"]) == 0
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN

    def test_what_fails_because_of_an_interruption_is_none_of_its_own(self):
        def torn_down() -> None:
            try:
                raise KeyboardInterrupt
            finally:
                raise ConnectionError("the JVM is gone")

        with pytest.raises(Interrupted), resumable("mine"):
            torn_down()

    def test_the_run_that_goes_on_after_the_end_of_its_engine_is_named(self, monkeypatch, capsys):
        def fail(*_: object, **__: object) -> None:
            raise EngineEndedError("the JVM has ended", hint="run the same command again")

        monkeypatch.setattr("das_spark.pipeline.run_stages", fail)
        assert main(["run", "quickstart"]) == 1
        begin, _, run_id = capsys.readouterr().err.partition(" (--run-id quickstart-2")
        assert begin == "das-spark: error: [DAS620] the JVM has ended Hint: run the same command again"
        assert run_id.endswith(")\n")

    def test_another_error_stays_what_it_is(self, monkeypatch, capsys):
        def fail(*_: object, **__: object) -> None:
            raise RuntimeError("no reason")

        monkeypatch.setattr(runs, "load_run", fail)
        assert main(["run", "quickstart"]) == 1
        assert "interrupted" not in capsys.readouterr().err


def begun(folder: Path) -> bool:
    return (folder / "runs" / "mine" / "restricted" / "log.jsonl").is_file()


def in_a_stage(folder: Path) -> bool:
    log = folder / "runs" / "mine" / "restricted" / "log.jsonl"
    return log.is_file() and '"event": "stage.' in log.read_text().replace('":"', '": "')


def require_all_ended(group: int) -> None:
    """Fail where a process of a group is left: a JVM that nobody will ever ask for anything."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.2)
    os.killpg(group, signal.SIGKILL)
    pytest.fail("processes are left behind")


def heed_interruptions() -> None:
    """As in a terminal: where the tests run in the background their shell has Ctrl-C ignored, and nohup its end."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def test_the_bridge_of_spark_writes_nothing_by_any_of_its_loggers():
    said = """
import logging
from das_spark.cli.interruption import take_interruptions
take_interruptions()
logging.basicConfig()
logging.getLogger("py4j.clientserver").error("of the bridge")
logging.getLogger("other").error("of another")
"""
    done = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, check=True)
    assert done.stderr == "ERROR:other:of another\n"


@pytest.mark.spark
@pytest.mark.long
class TestRealProcesses:
    def interrupted(
        self,
        folder: Path,
        program: list[str],
        when: Callable[[Path], bool],
        after: float,
        number: signal.Signals = signal.SIGINT,
    ) -> str:
        """Standard error of a run that is sent a signal as a terminal does: to all its processes."""
        command = [*program, "quickstart", "--run-id", "mine", "--test-key", "x", "--set", f"output.root={folder}/runs"]
        ours = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
        with (folder / "said").open("w+") as said:
            run = subprocess.Popen(
                command,
                cwd=folder,
                env=ours,
                stdout=said if program[0].endswith(".sh") else subprocess.DEVNULL,  # Spark joins both of its driver
                stderr=said,
                start_new_session=True,
                preexec_fn=heed_interruptions,  # noqa: PLW1509 - the tests have one thread
            )
            until = time.monotonic() + SECONDS
            while not when(folder) and time.monotonic() < until:
                assert run.poll() is None, (folder / "said").read_text()
                time.sleep(0.05)
            time.sleep(after)
            os.killpg(run.pid, number)
            assert run.wait(SECONDS) == 128 + number
            require_all_ended(run.pid)
        return (folder / "said").read_text()

    @pytest.mark.parametrize(("when", "after"), [(begun, 0.0), (begun, 1.5), (in_a_stage, 0.0), (in_a_stage, 2.5)])
    def test_nothing_else_is_said(self, tmp_path, when, after):
        said = self.interrupted(tmp_path, [PROGRAM, "run"], when, after)
        lines = [line for line in said.splitlines() if not any(words in line for words in AT_THE_START)]
        command = f"run quickstart --run-id mine --test-key x --set output.root={tmp_path}/runs"
        assert lines == [f"das-spark: interrupted; run mine goes on with: das-spark {command}"]

    @pytest.mark.parametrize("number", ENDING)
    def test_nor_where_the_jvm_is_ended_too(self, tmp_path, number):
        said = self.interrupted(tmp_path, [PROGRAM, "run"], in_a_stage, 1.0, number)
        lines = [line for line in said.splitlines() if not any(words in line for words in AT_THE_START)]
        command = f"run quickstart --run-id mine --test-key x --set output.root={tmp_path}/runs"
        assert lines == [f"das-spark: interrupted by {number.name}; run mine goes on with: das-spark {command}"]
        (*_, last) = (tmp_path / "runs" / "mine" / "restricted" / "log.jsonl").read_text().splitlines()
        assert json.loads(last)["signal"] == number.name

    def test_nor_by_way_of_spark_submit(self, tmp_path):
        script = str(ROOT / "spark-submit.sh")
        said = self.interrupted(tmp_path, [script], in_a_stage, 1.0)
        lines = [line for line in said.splitlines() if any(words in line for words in OF_AN_END)]
        command = f"quickstart --run-id mine --test-key x --set output.root={tmp_path}/runs"
        assert lines == [f"das-spark: interrupted; run mine goes on with: {script} {command}"]
