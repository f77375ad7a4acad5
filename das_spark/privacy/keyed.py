"""The one door to randomness: bits from AES-256 under a key of their own for every domain, addressed one by one.

    subkey = HKDF-SHA512(run key; format version, product, table, geolevel, attempt, query, encoded injectively)   (P-6)
    block(geounit, number, draw) = AES-256(subkey; geounit in 8 bytes | number in 4 bytes | draw in 4 bytes)       (P-7)

Draw 0 of answers 2i and 2i + 1 are the two halves of block(geounit, i, 0). Draw d >= 1 of answer a, which only
refinement asks for, is the first half of block(geounit, a, d). The draw field keeps the two apart, so no two
(geounit, answer, draw) share a bit. Integers are little-endian. Every word has an address, so a task that is run
again, in another partition or for one answer alone, finds the same word.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
from dataclasses import dataclass
from typing import Final, NoReturn

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from das_spark.errors import PrivacyGuardError

FORMAT_VERSION: Final = 1  # Of (P-6) and (P-7): another version draws other noise from the same key.
_KEY_BYTES: Final = 32
_BLOCK_BYTES: Final = 16
_FIELD_LIMIT: Final = 1 << 32
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

        Args:
            domain: What the words are for.

        Returns:
            The stream under the subkey of the domain, which knows whether this is a test key.
        """
        derivation = HKDF(algorithm=hashes.SHA512(), length=_KEY_BYTES, salt=_LABEL, info=domain.encoded())
        return KeyedStream(derivation.derive(self._reveal()), domain, is_insecure=self._is_insecure)

    def _refuse(self, *_: object) -> NoReturn:
        raise TypeError("a run key is never pickled or copied: derive the stream of one domain instead")

    __copy__ = __deepcopy__ = __reduce__ = __reduce_ex__ = __getstate__ = _refuse


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

    def words(self, geounits: NDArray[np.integer], answers: NDArray[np.integer], draw: int) -> Words:
        """Words by address.

        Args:
            geounits: Numbers of the geounits, integers in [0, 2^64), shape (n,).
            answers: Indices of the answers, integers in [0, 2^32), shape (n,).
            draw: Number of the draw, 0 for the first word of an answer.

        Returns:
            uint64 words, shape (n,).

        Raises:
            PrivacyGuardError: If an address does not fit its field.
        """
        units, indices = _checked(geounits, 64), _checked(answers, 32)
        if not 0 <= draw < _FIELD_LIMIT:
            raise PrivacyGuardError(f"draw {draw} of an answer does not fit its field")
        result = np.empty(len(units), dtype=np.uint64)
        for start in range(0, len(units), _CHUNK):
            part = slice(start, start + _CHUNK)
            self._fill(result[part], units[part], indices[part], draw)
        return result

    def _fill(self, result: Words, units: Words, indices: Words, draw: int) -> None:
        blocks = np.empty((len(units), 2), dtype="<u8")
        blocks[:, 0] = units
        if draw > 0:
            np.bitwise_or(indices, np.uint64(draw << 32), out=blocks[:, 1])
            result[:] = self._encipher(blocks)[:, 0]
            return
        np.right_shift(indices, np.uint64(1), out=blocks[:, 1])
        enciphered = self._encipher(blocks).reshape(-1)
        places = np.arange(0, len(enciphered), 2, dtype=np.uint64)
        places += indices & np.uint64(1)
        enciphered.take(places.view(np.int64), out=result)

    def word_grid(self, geounits: NDArray[np.integer], rows: int) -> Words:
        """First words (draw 0) of answers 0, ..., rows - 1 of every geounit, at half the cost of `words`.

        Args:
            geounits: Numbers of the geounits, integers in [0, 2^64), shape (n,).
            rows: Number of answers, at most 2^32.

        Returns:
            uint64 words, shape (n, rows).
        """
        units = _checked(geounits, 64)
        if not 0 <= rows <= _FIELD_LIMIT:
            raise PrivacyGuardError(f"{rows} answers of a query do not fit their field")
        pairs = (rows + 1) // 2
        blocks = np.empty((len(units), pairs, 2), dtype="<u8")
        blocks[:, :, 0] = units[:, np.newaxis]
        blocks[:, :, 1] = np.arange(pairs, dtype=np.uint64)
        return self._encipher(blocks.reshape(-1, 2)).reshape(len(units), 2 * pairs)[:, :rows]

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
        # ECB is right here: every block that is ever enciphered under a subkey is a different address.
        return Cipher(algorithms.AES256(self._reveal()), modes.ECB()).encryptor()  # noqa: S305


def _restore(key: bytes, domain: StreamDomain, is_insecure: bool) -> KeyedStream:
    return KeyedStream(key, domain, is_insecure=is_insecure)


def _checked(numbers: NDArray[np.integer], bits: int) -> Words:
    """Addresses as uint64, refused where they do not fit their field."""
    array = np.asarray(numbers)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise PrivacyGuardError(f"addresses of random words must be integers in one row, found {array.dtype}")
    negative = array.dtype.kind == "i" and array.size > 0 and int(array.min()) < 0
    if negative or (array.size > 0 and int(array.max()) >= 1 << bits):
        raise PrivacyGuardError(f"an address of a random word does not fit into {bits} bits")
    return array.astype(np.uint64, copy=False)
