"""The one door to randomness: bits from AES-256 under a key of their own for every domain, addressed one by one.

    subkey = HKDF-SHA512(run key; format version, product, table, geolevel, attempt, query, encoded injectively)   (P-6)
    S_0 = 0, S_i = AES-256(subkey; S_(i-1) xor B_i)
    block(geocode, number, draw) = AES-256(subkey; S_m xor (number in 8 bytes | draw in 8 bytes))                  (P-7)

B_1, ..., B_m are the blocks of 16 bytes of a geocode: its length in 2 bytes (big-endian), the geocode as text, zeros up
to a whole block. So every geocode, whole and of any length, has an encoding of its own, and none begins another's: the
length comes first, and decides how many blocks there are. (P-7) is the cipher block chaining MAC of (geocode, number,
draw). On messages of which none begins another that is a pseudorandom function as long as AES-256 is a pseudorandom
permutation: with N blocks enciphered under one subkey it can be told from random with probability below N^2 / 2^127
(Petrank and Rackoff 2000; Bellare, Pietrzak and Rogaway 2005 give tighter bounds).

Draw 0 of answers 2i and 2i + 1 are the two halves of block(geocode, i, 0). Draw d >= 1 of answer a, which only
refinement asks for, is the first half of block(geocode, a, d). The draw field keeps the two apart, so no two
(geocode, answer, draw) share a bit. Integers of the last block are little-endian. Every word has an address, so a task
that is run again, in another partition or for one answer alone, finds the same word.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NoReturn, Self

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from das_spark.errors import PrivacyGuardError

FORMAT_VERSION: Final = 2  # Of (P-6) and (P-7): another version draws other noise from the same key.
_KEY_BYTES: Final = 32
_BLOCK_BYTES: Final = 16
_LENGTH_BYTES: Final = 2
_CHUNK: Final = 1 << 14  # Blocks enciphered at a time: input and output stay in the second-level cache.
_LABEL: Final = b"das_spark keyed stream"
_INSECURE_LABEL: Final = b"das_spark INSECURE test key"

Words = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class StreamDomain:
    """What a stream of random words is for; streams of different domains are independent.

    Args:
        product: Name of the product.
        table: What is measured: persons, units, ... .
        geolevel: Name of the geolevel.
        attempt: Number of the attempt at measuring the level, from 0.
        query: Name of the query.

    Raises:
        PrivacyGuardError: If a name is empty or the attempt is no number from 0.
    """

    product: str
    table: str
    geolevel: str
    attempt: int
    query: str

    def __post_init__(self) -> None:
        """Refuse domains that could be mistaken for another."""
        for field in ("product", "table", "geolevel", "query"):
            value: object = getattr(self, field)
            if not isinstance(value, str) or not value:
                raise PrivacyGuardError(f"the {field} of a random stream must have a name")
        attempt: object = self.attempt
        if isinstance(attempt, bool) or not isinstance(attempt, int) or attempt < 0:
            raise PrivacyGuardError(f"the attempt of a random stream must be 0, 1, ..., is {attempt!r}")

    def encoded(self) -> bytes:
        """An injective encoding: every field, the version included, preceded by its length in 8 bytes."""
        fields = (str(FORMAT_VERSION), self.product, self.table, self.geolevel, str(self.attempt), self.query)
        return b"".join(len(data).to_bytes(8, "big") + data for data in (field.encode() for field in fields))


class _Secret:
    """Holds a key so that it reaches no text by accident.

    Args:
        key: 256 bits.
    """

    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        if len(key) != _KEY_BYTES:
            raise PrivacyGuardError(f"a key has {8 * _KEY_BYTES} bits, found {8 * len(key)}")
        self._key = bytes(key)

    def _reveal(self) -> bytes:
        return self._key

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: hidden>"

    __str__ = __repr__

    def __format__(self, specification: str) -> str:
        return repr(self)


class RunKey(_Secret):
    """The 256-bit key of a run, from which all its noise follows. It never leaves the process that made it.

    It hides itself in every text form and refuses to be pickled or copied; what measure tasks get is the stream of
    one domain.

    Args:
        key: 256 bits; use `from_system`.
        is_insecure: Whether it is a test key.
    """

    __slots__ = ("_is_insecure",)

    def __init__(self, key: bytes, *, is_insecure: bool = False) -> None:  # noqa: D107 - Args stand with the class.
        super().__init__(key)
        self._is_insecure = is_insecure

    @classmethod
    def from_system(cls) -> RunKey:
        """A fresh key from the operating system."""
        return cls(secrets.token_bytes(_KEY_BYTES))

    @classmethod
    def insecure(cls, text: str) -> RunKey:
        """A key that anybody can compute from a text: for tests and repeated experiments, never for a release.

        Args:
            text: Any text; the same text gives the same key.
        """
        return cls(hashlib.sha256(_INSECURE_LABEL + text.encode()).digest(), is_insecure=True)

    @property
    def is_insecure(self) -> bool:
        """Whether this is a test key, so that every output must say so."""
        return self._is_insecure

    def derive(self, domain: StreamDomain) -> KeyedStream:
        """The random words of one domain, by (P-6).

        Returns:
            The stream under the subkey of the domain, which knows whether this is a test key.
        """
        derivation = HKDF(algorithm=hashes.SHA512(), length=_KEY_BYTES, salt=_LABEL, info=domain.encoded())
        return KeyedStream(derivation.derive(self._reveal()), domain, is_insecure=self._is_insecure)

    def _refuse(self, *_: object) -> NoReturn:
        raise TypeError("a run key is never pickled or copied: derive the stream of one domain instead")

    __copy__ = __deepcopy__ = __reduce__ = __reduce_ex__ = __getstate__ = _refuse


@dataclass(frozen=True, slots=True, eq=False)
class GeounitAddresses:
    """Geounits as the randomness knows them: by their whole geocodes, in an injective encoding.

    Make it with `of`.

    Attributes:
        blocks: The blocks of each geocode, uint64 of shape (n, m, 2); zeros behind those that it has.
        counts: How many blocks each has, shape (n,), from 1 to m.
    """

    blocks: Words
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, geocodes: Iterable[str]) -> Self:
        """The addresses of geounits of one geolevel.

        Args:
            geocodes: Texts of any characters, none twice.

        Raises:
            PrivacyGuardError: A geocode stands twice, so that two measurements would have the same noise; a key does
                not tell its geocode, so that two geounits might; or as `geounit_key`.
        """
        codes = list(geocodes)
        keys = [geounit_key(geocode) for geocode in codes]
        if len(set(keys)) != len(keys):
            raise PrivacyGuardError("a geounit stands twice in one call for noise")
        # Whoever calls sees some geounits of a level: that a key can be read back says that no other geounit has it.
        if wrong := next((code for code, key in zip(codes, keys, strict=True) if _geocode_of(key) != code), None):
            raise PrivacyGuardError(
                f"geounit {wrong}: its address in the randomness might be that of another one, and the noise the same",
                hint="nothing of the level is kept; this is a fault of das_spark: report it",
            )
        counts = np.fromiter((len(key) // _BLOCK_BYTES for key in keys), dtype=np.int64, count=len(keys))
        most = int(counts.max(initial=1))
        whole = b"".join(key.ljust(most * _BLOCK_BYTES, b"\0") for key in keys)
        return cls(np.frombuffer(whole, dtype="<u8").reshape(len(keys), most, 2), counts)

    def __len__(self) -> int:
        """How many geounits."""
        return len(self.counts)

    def part(self, chosen: slice | NDArray[np.int64]) -> GeounitAddresses:
        """Some of the geounits."""
        return GeounitAddresses(self.blocks[chosen], self.counts[chosen])


def geounit_key(geocode: str) -> bytes:
    """The blocks B_1, ..., B_m of a geocode by (P-7): two geounits with different keys never share a word.

    Args:
        geocode: Text of any characters, 1 to 65,535 bytes in UTF-8.

    Returns:
        A whole number of blocks of 16 bytes; no key of another geocode begins with them.

    Raises:
        PrivacyGuardError: The geocode is empty or too long.
    """
    text = geocode.encode()
    if not 0 < len(text) < 1 << 8 * _LENGTH_BYTES:
        raise PrivacyGuardError("the geocode of a geounit must have 1 to 65,535 bytes to be an address of noise")
    size = len(text) + _LENGTH_BYTES
    return len(text).to_bytes(_LENGTH_BYTES, "big") + text + bytes(-size % _BLOCK_BYTES)


def _geocode_of(key: bytes) -> str:
    """The geocode of which a key was made."""
    length = int.from_bytes(key[:_LENGTH_BYTES], "big")
    return key[_LENGTH_BYTES : _LENGTH_BYTES + length].decode(errors="replace")


class KeyedStream(_Secret):
    """The random words of one domain, each with an address (geounit, answer, draw), by (P-7).

    Picklable, since measure tasks receive it: wherever it travels, the channel must be encrypted.

    Args:
        key: The 256-bit subkey of the domain.
        domain: What the words are for.
        is_insecure: Whether they come from a test key.
    """

    __slots__ = ("_local", "domain", "is_insecure")

    def __init__(self, key: bytes, domain: StreamDomain, *, is_insecure: bool) -> None:  # noqa: D107 - see the class.
        super().__init__(key)
        self.domain = domain
        self.is_insecure = is_insecure
        self._local = threading.local()

    def __reduce__(self) -> tuple[object, ...]:
        """Travel with the subkey, without the cipher."""
        return (_restore, (self._reveal(), self.domain, self.is_insecure))

    def words(self, geounits: GeounitAddresses, answers: NDArray[np.integer], draw: int = 0) -> Words:
        """The words of some answers of every geounit.

        Args:
            geounits: Addresses of the geounits, n.
            answers: Indices of the answers, integers from 0, shape (r,).
            draw: Number of the draw, 0 for the first word of an answer.

        Returns:
            uint64 words, shape (n, r).

        Raises:
            PrivacyGuardError: If an answer or the draw is no whole number from 0 that fits into its field.
        """
        indices = _checked(answers)
        if not 0 <= draw < 1 << 63:
            raise PrivacyGuardError(f"draw {draw} of an answer does not fit its field")
        if draw > 0:
            return self._numbered(geounits, indices, draw)[:, :, 0]
        pairs, position = np.unique(indices >> np.uint64(1), return_inverse=True)
        halves = self._numbered(geounits, pairs, 0).reshape(len(geounits), 2 * len(pairs))
        chosen: Words = halves.take(2 * position + (indices & np.uint64(1)).astype(np.int64), axis=1)
        return chosen

    def words_of_groups(
        self,
        geounits: GeounitAddresses,
        sizes: NDArray[np.int64],
        answers: NDArray[np.integer],
        widths: NDArray[np.int64],
    ) -> Words:
        """The first words of some answers of every geounit, where groups of geounits have answers of their own.

        Args:
            geounits: Addresses of the geounits of all groups, one group after the other, n.
            sizes: How many geounits each group has, shape (g,).
            answers: Indices of the answers, ascending within each group, one group after the other.
            widths: How many answers each group has, shape (g,).

        Returns:
            uint64 words, group by group, geounit by geounit, answer by answer: those that `words` gives group by group.

        Raises:
            PrivacyGuardError: As `words`.
        """
        indices = _checked(answers)
        group = np.repeat(np.arange(len(widths)), widths)
        # Two answers share a block: its number is half of theirs.
        halves = indices >> np.uint64(1)
        begins = np.ones(len(indices), dtype=np.bool_)
        begins[1:] = (halves[1:] != halves[:-1]) | (group[1:] != group[:-1])
        block = np.cumsum(begins) - 1
        numbers, blocks = halves[begins], np.bincount(group[begins], minlength=len(widths))
        of_geounit = np.repeat(np.arange(len(sizes)), sizes)
        # Every geounit with the blocks of its group.
        owner, number = _crossed(of_geounit, blocks)
        states = self._states(geounits)
        mixed = np.empty((len(owner), 2), dtype="<u8")
        np.bitwise_xor(states[owner, 0], numbers[number], out=mixed[:, 0])
        mixed[:, 1] = states[owner, 1]
        halves_of_blocks = self._encipher(mixed)
        # And with the answers of its group.
        owner, answer = _crossed(of_geounit, np.asarray(widths))
        first = np.cumsum(blocks[of_geounit]) - blocks[of_geounit]
        first_of_group = np.cumsum(blocks) - blocks
        place = first[owner] + block[answer] - first_of_group[of_geounit[owner]]
        chosen: Words = halves_of_blocks.reshape(-1).take(2 * place + (indices[answer] & np.uint64(1)).astype(np.int64))
        return chosen

    def _numbered(self, geounits: GeounitAddresses, numbers: Words, draw: int) -> Words:
        """Blocks (P-7) of every geounit and number, shape (n, numbers, 2)."""
        result = np.empty((len(geounits), len(numbers), 2), dtype=np.uint64)
        step = max(1, _CHUNK // max(1, len(numbers)))
        for start in range(0, len(geounits), step):
            states = self._states(geounits.part(slice(start, start + step)))
            blocks = np.empty((len(states), len(numbers), 2), dtype="<u8")
            np.bitwise_xor(states[:, :1], numbers, out=blocks[:, :, 0])
            np.bitwise_xor(states[:, 1:], np.uint64(draw), out=blocks[:, :, 1])
            result[start : start + step] = self._encipher(blocks.reshape(-1, 2)).reshape(blocks.shape)
        return result

    def _states(self, geounits: GeounitAddresses) -> Words:
        """S_m of every geounit, shape (n, 2)."""
        states = np.zeros((len(geounits), 2), dtype="<u8")
        for place in range(geounits.blocks.shape[1]):
            going_on = geounits.counts > place
            if going_on.all():
                states = self._encipher(states ^ geounits.blocks[:, place])
            else:
                states[going_on] = self._encipher(states[going_on] ^ geounits.blocks[going_on, place])
        return states

    def _encipher(self, blocks: Words) -> Words:
        """AES-256 of each 16-byte block; shape (n, 2) in and out."""
        context = getattr(self._local, "context", None)
        if context is None:
            context = self._new_context()
            self._local.context = context
        size = len(blocks) * _BLOCK_BYTES
        output = np.empty(size + _BLOCK_BYTES, dtype=np.uint8)
        if size:
            context.update_into(blocks.data.cast("B"), output.data)
        return output[:size].view("<u8").reshape(-1, 2).astype(np.uint64, copy=False)

    def _new_context(self) -> CipherContext:
        # ECB of single blocks is AES itself: the chaining of (P-7) is done here, over many geounits at once.
        return Cipher(algorithms.AES256(self._reveal()), modes.ECB()).encryptor()  # noqa: S305


def _crossed(group: NDArray[np.int64], sizes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Each geounit with each thing of its group: positions of both; the things lie one group after the other."""
    counts = sizes[group]
    owner = np.repeat(np.arange(len(group)), counts)
    first = np.cumsum(sizes) - sizes
    before = np.cumsum(counts) - counts
    return owner, np.arange(len(owner)) - before[owner] + first[group[owner]]


def _restore(key: bytes, domain: StreamDomain, is_insecure: bool) -> KeyedStream:
    return KeyedStream(key, domain, is_insecure=is_insecure)


def _checked(answers: NDArray[np.integer]) -> Words:
    """Indices of answers as uint64, refused where they are none."""
    array = np.asarray(answers)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise PrivacyGuardError(f"answers must be whole numbers in one row, found {array.dtype} of shape {array.shape}")
    if array.size and not 0 <= int(array.min()) <= int(array.max()) < 1 << 63:
        raise PrivacyGuardError("the index of an answer does not fit its field")
    return array.astype(np.uint64, copy=False)
