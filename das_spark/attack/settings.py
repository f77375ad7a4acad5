"""How attacks are carried out."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from das_spark.errors import ConfigurationError
from das_spark.limits import require_level

DIFFERENCING: Final = "differencing"
#: Attack -> what it does, in a line.
ATTACKS: Final = {
    "reconstruction": "records of a sample of geounits from their published tables, by integer programs",
    "linkage": "link everybody with the microdata by place and age, and learn race",
    "inference": "tell records, attributes and places apart by the noisy answers; and look at the run's own noise",
    DIFFERENCING: "tell records apart by the noisy answers of two runs on one dataset",
}


@dataclass(frozen=True, slots=True)
class AttackSettings:
    """How attacks are carried out.

    Raises:
        ConfigurationError: A probability is none, or there is nothing to draw.
    """

    blocks: int = 400  #: geounits of the lowest geolevel whose records are reconstructed; a sample where there are more
    draws: int = 100_000  #: of the noise, under each of two records
    level: float = 0.95  #: confidence of what the empirical curves of one run say together
    swapped: Fraction = Fraction(1, 20)  #: share of the records that the baseline exchanges between geounits
    seed: int = 0  #: of samples and baselines, which protect nothing; noise is never drawn from it
    known: str = ""  #: query of what is known of persons whom linkage looks for; the usual one where empty
    learned: str = ""  #: query of what is learned of them
    #: INSECURE: a text from which the keys of drawn noise follow, to repeat an attack; fresh keys where None.
    test_key: str | None = None

    def __post_init__(self) -> None:
        """Check numbers, before anything is read."""
        require_level(self.level, "level")
        if not 0 <= self.swapped <= 1:
            raise ConfigurationError(f"swapped: a share lies between 0 and 1, is {self.swapped}")
        for name, number in (("blocks", self.blocks), ("draws", self.draws)):
            if number < 1:
                raise ConfigurationError(f"{name}: one at least, is {number}")
