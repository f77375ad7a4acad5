"""The one door to randomness: addresses, domains, and a key that hides itself."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import hmac
import json
import pickle
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st

from das_spark.errors import PrivacyGuardError
from das_spark.privacy import GeounitAddresses, KeyedStream, RunKey, StreamDomain, geounit_key, keyed

DOMAIN = StreamDomain("e2e_1940", "person", "County", 0, "hhgq")
ONE = GeounitAddresses.of(["0"])
names = st.text(min_size=1, max_size=6)
domains = st.builds(StreamDomain, names, names, names, st.integers(0, 300), names)


@pytest.fixture
def stream() -> KeyedStream:
    return RunKey.insecure("addresses").derive(DOMAIN)


def one_word(key: bytes, geocode: str, number: int, draw: int, half: int) -> int:
    """A word by the definition, with nothing of the package: the chaining is that of the cipher's own CBC mode."""
    text = len(geocode.encode()).to_bytes(2, "big") + geocode.encode()
    message = text + bytes(-len(text) % 16) + number.to_bytes(8, "little") + draw.to_bytes(8, "little")
    encryptor = Cipher(algorithms.AES(key), modes.CBC(bytes(16))).encryptor()
    return int.from_bytes(encryptor.update(message)[-16:][8 * half : 8 * half + 8], "little")


def subkey(run_key: bytes, fields: list[str]) -> bytes:
    """HKDF-SHA512 (RFC 5869) by hand."""
    info = b"".join(len(field.encode()).to_bytes(8, "big") + field.encode() for field in fields)
    extracted = hmac.new(b"das_spark keyed stream", run_key, hashlib.sha512).digest()
    return hmac.new(extracted, info + b"\x01", hashlib.sha512).digest()[:32]


def test_words_follow_the_written_definition() -> None:
    raw = bytes(range(32))
    stream = RunKey(raw).derive(DOMAIN)
    key = subkey(raw, ["2", "e2e_1940", "person", "County", "0", "hhgq"])
    geocodes = ["1", "44007", "1" * 14, "1" * 15, "0" * 30, "0" * 31, "Ž12", "9" * 300]
    answers = np.array([0, 5, 2**40 + 1, 4])
    first = stream.words(GeounitAddresses.of(geocodes), answers)
    assert first.tolist() == [
        [one_word(key, geocode, int(answer) // 2, 0, int(answer) % 2) for answer in answers] for geocode in geocodes
    ]
    third = stream.words(GeounitAddresses.of(geocodes), answers, 3)
    assert third.tolist() == [[one_word(key, geocode, int(answer), 3, 0) for answer in answers] for geocode in geocodes]


@pytest.mark.parametrize("rows", [0, 1, 2, 7, 50_001])
def test_words_do_not_depend_on_what_else_is_asked_for(stream: KeyedStream, rows: int) -> None:
    geocodes = ["3", "4" * 20, "17"]
    whole = stream.words(GeounitAddresses.of(geocodes), np.arange(rows))
    assert whole.shape == (3, rows)
    some = np.arange(rows)[::-3]
    for place, geocode in enumerate(geocodes):
        assert np.array_equal(stream.words(GeounitAddresses.of([geocode]), some)[0], whole[place, some])


def test_no_two_addresses_share_a_word(stream: KeyedStream) -> None:
    geounits, answers = GeounitAddresses.of(map(str, range(60))), np.arange(50)
    words = [stream.words(geounits, answers, draw) for draw in range(4)]
    assert len(np.unique(np.concatenate(words))) == 4 * 3000


codes = st.text(alphabet="0123456789", min_size=1, max_size=200)


@given(st.lists(st.one_of(codes, st.text(min_size=1, max_size=40)), min_size=2, max_size=12, unique=True))
@pytest.mark.slow
def test_no_encoding_begins_another(geocodes: list[str]) -> None:
    """What the proof of (P-7) asks for; with it no two geocodes share an address, and so no noise."""
    keys = sorted(map(geounit_key, geocodes))
    assert not any(after.startswith(before) for before, after in pairwise(keys))


@given(codes, st.text(alphabet="0123456789", min_size=1, max_size=20))
def test_geocodes_that_share_an_end_or_a_beginning_share_no_word(geocode: str, more: str) -> None:
    geounits = GeounitAddresses.of([geocode, geocode + more, more + geocode + "0"])
    words = RunKey.insecure("addresses").derive(DOMAIN).words(geounits, np.arange(4))
    assert len(np.unique(words)) == 12


@pytest.mark.parametrize(
    ("geocodes", "said"), [(["1", "2", "1"], "twice"), ([""], "1 to 65,535"), (["1" * 65_536], "1 to 65,535")]
)
def test_geounits_that_have_no_address_of_their_own_are_refused(geocodes: list[str], said: str) -> None:
    with pytest.raises(PrivacyGuardError, match=said):
        GeounitAddresses.of(geocodes)


def test_an_address_that_does_not_tell_its_geocode_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The numbering of before, in which geocodes that differ met, where no two of one call do."""
    codes = [f"{state}{block:016d}" for state in ("104", "111") for block in range(3)]
    assert len(GeounitAddresses.of(codes)) == 6
    real = geounit_key
    monkeypatch.setattr(keyed, "geounit_key", lambda code: real(code if len(code) <= 18 else code[-16:]))
    for code in codes:
        with pytest.raises(PrivacyGuardError, match=f"geounit {code}: its address"):
            GeounitAddresses.of([code])


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
    words = key.derive(DOMAIN).words(ONE, np.arange(64))
    assert not np.intersect1d(words, key.derive(other).words(ONE, np.arange(64))).size


def test_the_same_domain_of_the_same_key_gives_the_same_words() -> None:
    first, second = (RunKey.insecure("same").derive(DOMAIN).words(ONE, np.arange(64)) for _ in range(2))
    assert np.array_equal(first, second)


def test_two_keys_of_the_system_differ() -> None:
    first, second = (RunKey.from_system().derive(DOMAIN).words(ONE, np.arange(1)) for _ in range(2))
    assert first[0, 0] != second[0, 0]


@pytest.mark.parametrize(
    ("answers", "draw"),
    [
        (np.array([-1]), 0),
        (np.array([2**63], dtype=np.uint64), 0),
        (np.array([1.0]), 0),
        (np.array([0]), -1),
        (np.array([0]), 2**63),
        (np.array([[0]]), 0),
    ],
)
def test_an_answer_that_does_not_fit_is_refused(stream: KeyedStream, answers: np.ndarray, draw: int) -> None:
    with pytest.raises(PrivacyGuardError):
        stream.words(ONE, answers, draw)


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
    stream.words(ONE, np.arange(9))
    arrived = pickle.loads(pickle.dumps(stream))
    assert np.array_equal(arrived.words(ONE, np.arange(9)), stream.words(ONE, np.arange(9)))
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
