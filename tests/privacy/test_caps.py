"""Caps: what holds, what raises them, and that they are compared in exact numbers."""

from __future__ import annotations

from fractions import Fraction

import pytest

from das_spark.errors import BudgetError, PrivacyGuardError
from das_spark.privacy import PUBLISHED_DELTA, Cap, epsilon_cks
from das_spark.privacy.accounting import Composition
from das_spark.privacy.budget import caps_in_force, require_below

ZERO = Fraction(0)


def rho(value: str) -> Cap:
    return Cap(rho=Fraction(value))


def test_a_pure_sum_is_compared_exactly() -> None:
    third = Cap(epsilon=Fraction(1, 3))
    assert third.spent(Composition(Fraction(1, 3), ZERO)) == third.limit
    assert third.spent(Composition(Fraction(1, 3) + Fraction(1, 10**30), ZERO)) > third.limit


def test_a_mixture_is_compared_in_the_measure_of_the_cap() -> None:
    mixture = Composition(Fraction(1), Fraction(1, 2))
    assert rho("1").spent(mixture) == Fraction(1, 2) + Fraction(1, 2)
    assert rho("1").spent(Composition(Fraction(2), ZERO)) == 2
    assert float(Cap(epsilon=Fraction(9)).spent(mixture)) == mixture.joint_epsilon(PUBLISHED_DELTA)
    loose = Cap(epsilon=Fraction(9), delta=Fraction(1, 100))
    assert float(loose.spent(Composition(ZERO, Fraction(1)))) == epsilon_cks(Fraction(1), Fraction(1, 100))


def test_the_tightest_cap_of_a_kind_holds_and_kinds_hold_together() -> None:
    earlier = [(rho("2"), None), (rho("3"), None), (None, None), (Cap(epsilon=Fraction(20)), None)]
    assert set(caps_in_force(earlier)) == {rho("2"), Cap(epsilon=Fraction(20))}
    assert set(caps_in_force(earlier, rho("1"))) == {rho("1"), Cap(epsilon=Fraction(20))}


def test_a_cap_is_raised_step_by_step() -> None:
    earlier = [(rho("1"), None), (rho("2"), rho("1"))]
    assert caps_in_force(earlier) == (rho("2"),)
    assert caps_in_force([*earlier, (rho("5"), rho("1"))]) == (rho("2"),), "it names one that holds no longer"
    assert caps_in_force(earlier, rho("3"), rho("2")) == (rho("3"),)
    with pytest.raises(PrivacyGuardError, match="higher than the cap"):
        caps_in_force(earlier, rho("3"), rho("1"))
    with pytest.raises(PrivacyGuardError, match="higher than the cap"):
        caps_in_force(earlier, rho("3"))


def test_what_reaches_a_cap_is_allowed_and_what_exceeds_it_is_not() -> None:
    class Spent:
        at_most = 1

        def __init__(self, total: str) -> None:
            self.total = Fraction(total)

        @property
        def framework(self) -> object:
            from das_spark.privacy import Framework

            return Framework.ZCDP

    require_below([rho("1")], [Spent("1/2")], [Spent("1/2")])  # type: ignore[list-item]
    with pytest.raises(PrivacyGuardError, match="spent so far 1/2, this run asks 2/3, together 7/6"):
        require_below([rho("1")], [Spent("1/2")], [Spent("2/3")])  # type: ignore[list-item]


@pytest.mark.parametrize("record", [{"rho": "5/2"}, {"epsilon": "20", "delta": "1/10000000000"}, {"epsilon": "20"}])
def test_a_cap_survives_its_record(record: dict[str, str]) -> None:
    cap = Cap.of(record)
    assert cap is not None
    assert cap.as_record() == record
    assert Cap.of(None) is None
    with pytest.raises(BudgetError):
        Cap.of({**record, "rho": "x"})
