"""What clients of stores get wrong is set right: answers that are lost, and errors that look like "there is none"."""

from __future__ import annotations

import json
import secrets
import threading
import time
from types import SimpleNamespace

import pytest

from das_spark.errors import OutputError
from das_spark.places import disk_errors, lease, place_of, remote
from das_spark.store import Lines, read_lines
from das_spark.store.numbered import add_numbered, read_numbered


@pytest.fixture
def folder():
    return place_of(f"memory://{secrets.token_hex(4)}/runs")


class Unreachable:
    """A client whose every call fails as those of stores do: by an error of their own."""

    @staticmethod
    def _strip_protocol(path):
        return path

    def __getattr__(self, name):
        def fail(*_, **__):
            raise RuntimeError("503 SlowDown\nRequestId: 17")

        return fail


def test_a_store_that_does_not_answer_is_never_taken_for_one_in_which_there_is_nothing(folder, monkeypatch):
    monkeypatch.setattr(remote.RemoteFileSystem, "opened", lambda _: Unreachable())
    marker = folder / "_SUCCESS"
    for look in (marker.is_file, marker.is_dir, marker.exists, marker.read_bytes, lambda: folder.system.files("x")):
        with pytest.raises(OSError, match="503 SlowDown"):
            look()
    with pytest.raises(OutputError) as caught, disk_errors(marker):
        marker.is_file()
    assert caught.value.message == f"{marker}: RuntimeError: 503 SlowDown"
    assert "resumes" in caught.value.hint


def test_a_file_that_was_created_though_the_answer_was_lost_is_known_as_ours(folder, monkeypatch):
    files = folder.system.opened()

    class Forgetful(SimpleNamespace):
        """Writes, loses the answer, sends the request again, and is told that there is such a file."""

        def pipe_file(self, key, content, mode):
            files.pipe_file(key, content, mode=mode)
            raise FileExistsError(key)

        def __getattr__(self, name):
            return getattr(files, name)

    monkeypatch.setattr(remote.RemoteFileSystem, "opened", lambda _: Forgetful())
    assert folder.system.create(f"{folder}/lock", b"my word")
    monkeypatch.undo()
    assert not folder.system.create(f"{folder}/lock", b"another word")
    assert folder.system.read(f"{folder}/lock") == b"my word"


def test_lines_that_are_added_are_one_object_each_and_read_as_one_file(folder):
    log = Lines(folder / "log.jsonl")
    log.append(b"one\n")
    log.append(b"two\nthree\n")
    assert read_lines(folder / "log.jsonl") == b"one\ntwo\nthree\n"
    assert (folder / "log.jsonl").system.names(str(folder / "log.jsonl")) == {"00000001", "00000002"}
    other = Lines(folder / "log.jsonl")
    other.append(b"of another driver\n")
    with pytest.raises(OutputError, match="another driver has gone on with this run"):
        log.append(b"late\n")
    assert read_lines(folder / "log.jsonl") == b"one\ntwo\nthree\nof another driver\n"


def test_an_addition_that_is_missing_or_changed_is_noticed(folder):
    for number, word in enumerate((b"a\n", b"b\n", b"c\n")):
        assert add_numbered(folder, number, word)
    assert read_numbered(folder) == (3, b"a\nb\nc\n")
    folder.system.write(f"{folder}/00000002", b"B\n")
    assert read_numbered(folder) == (3, b"a\nB\nc\n")
    folder.system.remove(f"{folder}/00000002")
    with pytest.raises(Exception, match="some are missing"):
        read_numbered(folder)


def test_a_lock_of_another_machine_is_taken_over_when_it_gives_no_sign_of_life(folder, monkeypatch):
    monkeypatch.setattr(lease, "_BEAT", 0.05)
    monkeypatch.setattr(lease, "_LEASE", 0.4)
    path, system = f"{folder}/run.lock", folder.system
    monkeypatch.setattr(lease, "_machine", lambda: "another machine")
    with system.hold(path, "alive"):
        monkeypatch.setattr(lease, "_machine", lambda: "this machine")
        with pytest.raises(BlockingIOError), system.hold(path, "mine"):
            raise AssertionError("its holder lives")
    system.create(f"{path}/00000001", json.dumps({"word": "dead", "process": "another machine 1 2"}).encode())
    began = time.monotonic()
    with system.hold(path, "mine"):
        assert system.holder(path) == "mine"
        assert time.monotonic() - began > 0.3, "it was watched"
        assert system.names(path) == {"00000002", "00000002.life"}, "a number is never used again while one holds it"
    assert system.names(path) == set()


def test_of_several_that_take_over_one_does(folder, monkeypatch):
    monkeypatch.setattr(lease, "_LEASE", 0.2)
    monkeypatch.setattr(lease, "_BEAT", 0.05)
    path, system = f"{folder}/run.lock", folder.system
    system.create(f"{path}/00000001", json.dumps({"word": "dead", "process": "another machine 1 2"}).encode())
    held, ended = [], threading.Event()

    def take(word):
        try:
            with system.hold(path, word):
                held.append(word)
                ended.wait(10)
        except BlockingIOError:
            pass

    threads = [threading.Thread(target=take, args=(f"word {number}",)) for number in range(6)]
    for thread in threads:
        thread.start()
    time.sleep(1.5)
    assert len(held) == 1
    assert system.holder(path) == held[0]
    ended.set()
    for thread in threads:
        thread.join()


def test_a_store_that_cannot_be_reached_in_the_end_spoils_no_run_that_is_done(folder, monkeypatch):
    def fail(*_):
        raise OSError("the store cannot be reached")

    with folder.system.hold(f"{folder}/run.lock", "mine"):
        monkeypatch.setattr(remote.RemoteFileSystem, "remove", fail)
