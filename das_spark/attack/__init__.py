"""What somebody could learn of a person from what a run publishes, in numbers. RESTRICTED: it compares with the truth.

Each attack has a baseline beside it, since agreement with the truth alone says nothing of a release: much is guessed
rightly by those who have never seen it.

- `reconstruction`: records of a geounit, from its published tables, by integer programs.
- `linkage`: what somebody who knows a person's block and age takes from the microdata for that person's race.
- `inference`: which of two records was counted, from the noisy answers, by the likelihood ratio.
- `differencing`: the same from two runs of one dataset.
"""

from das_spark.attack.differencing import DifferencingFindings, TotalErrors, difference, present_differencing
from das_spark.attack.inference import InferenceFindings, infer, present_inference
from das_spark.attack.linkage import (
    GROUPS,
    TALLY,
    LinkageFindings,
    LinkedAttributes,
    Records,
    area_above,
    link,
    linkage_rows,
)
from das_spark.attack.own_noise import PARENTS, QUERIES, SIBLINGS, Agreement, NoiseFindings, Residuals, RunNoise
from das_spark.attack.report import AttackReport, present_attacks
from das_spark.attack.settings import ATTACKS, DIFFERENCING, AttackSettings

__all__ = [
    "ATTACKS",
    "DIFFERENCING",
    "GROUPS",
    "PARENTS",
    "QUERIES",
    "SIBLINGS",
    "TALLY",
    "Agreement",
    "AttackReport",
    "AttackSettings",
    "DifferencingFindings",
    "InferenceFindings",
    "LinkageFindings",
    "LinkedAttributes",
    "NoiseFindings",
    "Records",
    "Residuals",
    "RunNoise",
    "TotalErrors",
    "area_above",
    "difference",
    "infer",
    "link",
    "linkage_rows",
    "present_attacks",
    "present_differencing",
    "present_inference",
]
