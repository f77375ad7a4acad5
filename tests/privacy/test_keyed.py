"""The one door to randomness: addresses, domains, and a key that hides itself."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import hmac
import json
import pickle
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st

from das_spark.errors import PrivacyGuardError
from das_spark.privacy.keyed import KeyedStream, RunKey, StreamDomain

DOMAIN = StreamDomain("e2e_1940", "person", "County", 0, "hhgq")
names = st.text(min_size=1, max_size=6)
domains = st.builds(StreamDomain, names, names, names, st.integers(0, 300), names)


@pytest.fixture
def stream() -> KeyedStream:
    return RunKey.insecure("addresses").derive(DOMAIN)


def one_word(key: bytes, geounit: int, number: int, draw: int, half: int) -> int:
    """A word by the definition, with nothing of the package."""
    block = geounit.to_bytes(8, "little") + number.to_bytes(4, "little") + draw.to_bytes(4, "little")
    encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    return int.from_bytes(encryptor.update(block)[8 * half : 8 * half + 8], "little")


def subkey(run_key: bytes, fields: list[str]) -> bytes:
    """HKDF-SHA512 (RFC 5869) by hand."""
    info = b"".join(len(field.encode()).to_bytes(8, "big") + field.encode() for field in fields)
    extracted = hmac.new(b"das_spark keyed stream", run_key, hashlib.sha512).digest()
    return hmac.new(extracted, info + b"\x01", hashlib.sha512).digest()[:32]


def test_words_follow_the_written_definition() -> None:
    raw = bytes(range(32))
    stream = RunKey(raw).derive(DOMAIN)
    key = subkey(raw, ["1", "e2e_1940", "person", "County", "0", "hhgq"])
    geounits = np.array([1, 99, 2**64 - 1, 7], dtype=np.uint64)
    answers = np.array([0, 5, 2**32 - 1, 4])
    first = stream.words(geounits, answers, 0).tolist()
    assert first == [
        one_word(key, int(unit), int(answer) // 2, 0, int(answer) % 2)
        for unit, answer in zip(geounits, answers, strict=True)
    ]
    third = stream.words(geounits, answers, 3).tolist()
    assert third == [
        one_word(key, int(unit), int(answer), 3, 0) for unit, answer in zip(geounits, answers, strict=True)
    ]


@pytest.mark.parametrize("rows", [0, 1, 2, 7, 50_001])
def test_a_grid_of_words_has_the_words_of_its_addresses(stream: KeyedStream, rows: int) -> None:
    geounits = np.array([3, 2**63, 17], dtype=np.uint64)
    grid = stream.word_grid(geounits, rows)
    assert grid.shape == (3, rows)
    single = stream.words(np.repeat(geounits, rows), np.tile(np.arange(rows), 3), 0)
    assert np.array_equal(grid.reshape(-1), single)


def test_one_word_needs_no_other(stream: KeyedStream) -> None:
    many = stream.words(np.full(100, 12, dtype=np.uint64), np.arange(100), 0)
    alone = stream.words(np.array([12], dtype=np.uint64), np.array([57]), 0)
    assert alone[0] == many[57]


def test_no_two_addresses_share_a_word(stream: KeyedStream) -> None:
    units, answers = np.repeat(np.arange(60, dtype=np.uint64), 50), np.tile(np.arange(50), 60)
    words = [stream.words(units, answers, draw) for draw in range(4)]
    assert len(np.unique(np.concatenate(words))) == 4 * 3000


@given(st.lists(domains, min_size=2, max_size=12, unique=True))
def test_no_two_domains_share_an_encoding(several: list[StreamDomain]) -> None:
    assert len({domain.encoded() for domain in several}) == len(several)


def test_moving_a_letter_between_fields_makes_another_domain() -> None:
    first = StreamDomain("ab", "c", "l", 1, "q")
    second = StreamDomain("a", "bc", "l", 1, "q")
    assert first.encoded() != second.encoded()


@pytest.mark.parametrize("field", ["product", "table", "geolevel", "attempt", "query"])
def test_every_field_of_the_domain_changes_every_word(field: str) -> None:
    key = RunKey.from_system()
    changed: dict[str, Any] = {field: 1 if field == "attempt" else "other"}
    other = dataclasses.replace(DOMAIN, **changed)
    units, answers = np.zeros(64, dtype=np.uint64), np.arange(64)
    words = key.derive(DOMAIN).words(units, answers, 0)
    assert not np.intersect1d(words, key.derive(other).words(units, answers, 0)).size


def test_the_same_domain_of_the_same_key_gives_the_same_words() -> None:
    units, answers = np.zeros(64, dtype=np.uint64), np.arange(64)
    first, second = (RunKey.insecure("same").derive(DOMAIN).words(units, answers, 0) for _ in range(2))
    assert np.array_equal(first, second)


def test_two_keys_of_the_system_differ() -> None:
    units, answers = np.zeros(1, dtype=np.uint64), np.arange(1)
    first, second = (RunKey.from_system().derive(DOMAIN).words(units, answers, 0) for _ in range(2))
    assert first[0] != second[0]


@pytest.mark.parametrize(
    ("units", "answers", "draw"),
    [
        (np.array([-1]), np.array([0]), 0),
        (np.array([1]), np.array([-1]), 0),
        (np.array([1]), np.array([2**32]), 0),
        (np.array([1.0]), np.array([0]), 0),
        (np.array([1]), np.array([0]), -1),
        (np.array([1]), np.array([0]), 2**32),
        (np.array([[1]]), np.array([0]), 0),
    ],
)
def test_an_address_that_does_not_fit_is_refused(
    stream: KeyedStream, units: np.ndarray, answers: np.ndarray, draw: int
) -> None:
    with pytest.raises(PrivacyGuardError):
        stream.words(units, answers, draw)


def test_more_answers_than_fit_are_refused(stream: KeyedStream) -> None:
    with pytest.raises(PrivacyGuardError, match="do not fit"):
        stream.word_grid(np.array([1], dtype=np.uint64), 2**32 + 1)


@pytest.mark.parametrize("changed", [{"query": ""}, {"table": 3}, {"attempt": -1}, {"attempt": True}, {"attempt": "0"}])
def test_a_domain_that_could_be_mistaken_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(PrivacyGuardError):
        dataclasses.replace(DOMAIN, **changed)


def texts_of(thing: object) -> str:
    return f"{thing} {thing!r} {thing:>40} {[thing]} {thing!s}" + "%s %r" % (thing, thing)  # noqa: UP031


def test_keys_hide_in_every_text() -> None:
    raw = b"\x0bSECRETSECRETSECRETSECRETSECRET\x0b\x0b"[:32]
    key = RunKey(raw)
    stream = key.derive(DOMAIN)
    for thing in (key, stream):
        assert "SECRET" not in texts_of(thing)
        assert raw.hex() not in texts_of(thing)
        assert stream._reveal().hex() not in texts_of(thing)
        assert "hidden" in repr(thing)
        assert not hasattr(thing, "__dict__") or "SECRET" not in repr(vars(thing))


@pytest.mark.parametrize("attempt", [pickle.dumps, copy.copy, copy.deepcopy, json.dumps])
def test_a_run_key_is_never_copied_or_written(attempt: Any) -> None:
    with pytest.raises(TypeError):
        attempt(RunKey.from_system())


def test_a_stream_travels_to_a_task(stream: KeyedStream) -> None:
    units, answers = np.zeros(9, dtype=np.uint64), np.arange(9)
    stream.words(units, answers, 0)
    arrived = pickle.loads(pickle.dumps(stream))
    assert np.array_equal(arrived.words(units, answers, 0), stream.words(units, answers, 0))
    assert arrived.domain == DOMAIN
    assert arrived.is_insecure


def test_a_test_key_says_so_everywhere() -> None:
    assert RunKey.insecure("x").is_insecure
    assert RunKey.insecure("x").derive(DOMAIN).is_insecure
    assert not RunKey.from_system().is_insecure
    assert not RunKey.from_system().derive(DOMAIN).is_insecure


def test_a_key_of_another_length_is_refused() -> None:
    with pytest.raises(PrivacyGuardError, match="256 bits"):
        RunKey(b"short")
