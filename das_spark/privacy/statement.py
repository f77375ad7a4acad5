"""Privacy statements: the Markdown page of a run, and that of a joint run with all its parts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from das_spark.privacy.accounting import (
    PUBLISHED_DELTA,
    Framework,
    compose,
    epsilon_bun_steinke,
    epsilon_cks,
)
from das_spark.privacy.budget import Budget
from das_spark.privacy.exact_accounting import (
    POWERS,
    ExactComposition,
    compose_exactly,
    compositions_of,
    compositions_together,
    rounded_up,
    worst_epsilon,
    worst_odds,
)
from das_spark.privacy.ledger import Ledger, LedgerEntry, replaced_records
from das_spark.privacy.losses import Loss
from das_spark.privacy.mechanisms import DiscreteLaplace
from das_spark.privacy.relation import HOUSEHOLD, NO_EXACT_COUNTS, UNIT, NeighborRelation, any_geounit, same_geounits
from das_spark.privacy.semantics import Unknown, odds_text, percent_at_least, unknowns_of
from das_spark.report import code, escaped

_BANNER = """> **INSECURE: A TEST KEY WAS USED. The noise of this run can be computed by anybody and be taken away
> again. Nothing below protects anybody. These outputs are for tests only and must not be published as protected.**
"""
_NOT_CLAIMED_WHOLE = (
    "**No claim is made for what {subject} as a whole.** The numbers that this page opens with are made of people,"
    " without noise, and can tell two populations apart with certainty. What still holds:\n\n"
    "- **The noisy answers by themselves**, without these numbers and without what was computed with their help"
    " (bounds, estimates, microdata, tables, and which of the answers were kept): {figure}, for any two populations"
    " that differ in {records}.\n"
    "- **Everything together**: the same figure, but only between two populations that agree in these numbers, too,"
    " besides all else that is published exactly. Whoever changes one of them by being there is not protected.\n"
)
#: Headings around what verification of a joint run cannot know: all runs on the input are more with every run.
ALL_RUNS: Final = "## All runs on this input\n"
PARTS_ALONE: Final = "## Where the rest is said\n"
_LARGEST_EXPONENT = 700  # Beyond, the odds exceed a double.
_TYPE_ONE = (0.001, 0.01, 0.05, 0.1)  # errors of tests that a statement names
_NOT_CLAIMED = (
    "Invariants and whatever follows from them are published as they are. Two populations that differ in an invariant"
    " are not neighbours, and can be told apart.",
    "Which geounits exist, structural zeros and the rules of the constraints are treated as public knowledge.",
    "What can be inferred about a person from statistics on everybody else, as science does, is not prevented.",
    "The guarantee counts this run. Other releases from the same people add to it: see the ledger of the input.",
    "The key of the run lived in the memory of the processes that measured. Whoever could read that memory, or the"
    " confidential files themselves, is outside this statement, and so are differences in running time.",
)
_NO_PRICE = "These sums are those of noisy answers; what is published nearly exactly has no price."
_ABOUT_ATTRIBUTE = (
    "Between populations that differ in this attribute of one record alone, everything else about it being the same,"
    " the claim would be:"
)
_ABOUT_PLACE = (
    "Between populations that differ in the place of one record alone, within the same geounit of this geolevel, the"
    " claim would be:"
)
_OWN_ANSWERS = (
    "This section is about the noisy answers that this run drew itself. What the counts tell to which its estimates are"
    " held is in the statements of the runs that published them, and adds to it."
)
#: Paths that a statement lists; the table `shares` has all.
_MOST_PATHS = 20
_OWN_SHARES = (
    "\nGeounits of this spine have shares of their own (table `shares`): where a geounit has one child only, or was"
    " taken out of the spine, shares went up. The table above is that of the geounits for which this was not so. On"
    " each of the {paths} different paths from the top to a lowest geounit the shares sum to exactly 1, as the"
    " verification checks, so that the claim is that of the total all the same (Cumings-Menon et al. 2022, Theorem 3)."
    " The losses below are those of the worst path.\n"
)


@dataclass(frozen=True, slots=True)
class StatementFacts:
    """What a privacy statement is made from.

    Args:
        title: Title of the product.
        run_id: Name of the run.
        budget: The whole budget.
        invariants: What is published exactly, each a sentence.
        public_rules: Structural zeros and constraints that use public constants only, each a sentence.
        attributes: Losses about single attributes, of those that hold.
        within: Losses about the place within a geounit, of those that hold.
        from_people: What is published exactly although it follows from people, each half a sentence. The claim does not
            hold of runs on people where there is any.
        paths: Shares of the levels on the path to a lowest geounit, root first -> number of such geounits, the most
            first; empty where all geounits of a level have the same share.
        insecure: Whether a test key was used.
        unit: What kind of record is counted: "person", "unit" or "household".
        noun: What one record is called, where that is something else.
        contributor: What has at most `budget.at_most` records, where that is more than one.
        bound: Who sees to it that nobody has more, in a sentence; empty where nothing is said.
        relation: The neighbours of the run and of what it is held to.
        attribute_names: Names of the attributes of a record.
        releases: Entries of the run and of the releases whose published counts its estimates are held to, directly or
            in turn: what the run publishes follows from the outputs of all of them. Empty where it is held to none.
        all_runs: What all runs on this input cost together, this one included, in sentences; empty where nobody knows.
        notices: What readers must know of this run, each a sentence.
        origin: Where the measurements come from that the run did not draw itself, in sentences; empty where it did.
        published: Which run has published the counts that the estimates are held to, in sentences; empty without one.
        estimation: Which geolevels were estimated together, in a sentence; empty where each was by itself.
        external_noise: Whether other software drew them, of whose randomness nothing can be said.
        delta: For the conversions.
    """

    title: str
    run_id: str
    budget: Budget
    invariants: tuple[str, ...]
    public_rules: tuple[str, ...] = ()
    attributes: tuple[Loss, ...] = ()
    within: tuple[Loss, ...] = ()
    from_people: tuple[str, ...] = ()
    paths: Mapping[tuple[str, ...], int] = field(default_factory=dict)
    insecure: bool = False
    unit: str = "person"
    noun: str = ""
    contributor: str = "contributor"
    bound: str = ""
    relation: NeighborRelation = NO_EXACT_COUNTS
    attribute_names: tuple[str, ...] = ()
    releases: tuple[LedgerEntry, ...] = ()
    all_runs: str = ""
    notices: tuple[str, ...] = ()
    origin: str = ""
    published: str = ""
    estimation: str = ""
    external_noise: bool = False
    delta: Fraction = PUBLISHED_DELTA

    @property
    def one(self) -> str:
        """What one record is, for sentences."""
        return self.noun or self.unit

    @property
    def compositions(self) -> tuple[ExactComposition, ...]:
        """Those of which the worst is the cost of the whole claim; none where that is not known."""
        if self.releases:
            return compositions_together([(entry.budget, entry.paths) for entry in self.releases])
        return compositions_of(self.budget, [tuple(map(Fraction, path)) for path in self.paths])

    @property
    def cost(self) -> tuple[Framework, Fraction]:
        """What the whole claim costs, in one framework."""
        total = compose(self.releases or [self.budget])
        return (Framework.PURE_DP, total.epsilon) if total.joint_rho is None else (Framework.ZCDP, total.joint_rho)

    @property
    def stays(self) -> str:
        """Geounits that a record does not leave between neighbours, as the end of a sentence; empty where it may go."""
        return same_geounits(self.relation.exact_at(self.one))

    @property
    def record_says(self) -> str:
        """What a record says, for sentences about units and households."""
        names = [f"`{name}`" for name in self.attribute_names]
        return f" and its attributes ({', '.join(names)})" if names else ""

    @property
    def protected(self) -> str:
        """What is protected: a record, or all records of a contributor."""
        if self.budget.at_most == 1:
            return f"one record of one {self.one}"
        return f"all records of one {self.contributor}, at most {self.budget.at_most}"


def privacy_statement(facts: StatementFacts) -> str:
    """Write the statement of one run.

    Args:
        facts: What was declared, spent and done.

    Returns:
        Markdown.
    """
    sections = [
        f"# Privacy statement: {escaped(facts.title)}\n\nRun {code(facts.run_id)}.\n",
        _BANNER if facts.insecure else "",
        _published_nearly_exactly(facts.from_people),
        f"## Where the measurements come from\n\n{facts.origin}\n" if facts.origin else "",
        _claim(facts),
        _neighbours(facts),
        _bullets("## What is published exactly", facts.invariants, empty="Nothing: there are no invariants."),
        _bullets("## What is treated as public", facts.public_rules),
        f"## Counts that the estimates are held to\n\n{facts.published}\n" if facts.published else "",
        _spending(facts),
        _partial(
            f"## About one attribute of {f'one {facts.noun}' if facts.noun else f'a {facts.unit}'}",
            _whose(_ABOUT_ATTRIBUTE, facts),
            "attribute",
            facts.attributes,
            facts,
        ),
        _partial(
            "## About the place within a geounit", _whose(_ABOUT_PLACE, facts), "moves within", facts.within, facts
        ),
        _left_out(facts),
        _worth_of_claims(facts),
        _missed(facts),
        _randomness(facts),
        f"## How the estimates were made\n\n{escaped(facts.estimation)}\n" if facts.estimation else "",
        _bullets("## What is not claimed", _not_claimed(facts)),
        _bullets("## What readers must know", facts.notices),
        _all_runs(facts),
    ]
    return "\n".join(section for section in sections if section)


def _published_nearly_exactly(from_people: Sequence[str]) -> str:
    """The banner of what is published although it follows from people."""
    if not from_people:
        return ""
    listed = "\n".join(f"> - {escaped(each)}" for each in from_people)
    return (
        "> **PUBLISHED NEARLY EXACTLY, ALTHOUGH IT FOLLOWS FROM PEOPLE:**\n>\n"
        f"{listed}\n>\n"
        "> **No noise protects this, and no epsilon or rho covers it.** Whoever made the run has acknowledged it"
        " (`[privacy] acknowledge`).\n"
    )


def _not_claimed_as_a_whole(subject: str, figure: str, records: str) -> str:
    """What holds, and what does not, where something exact follows from people."""
    return _NOT_CLAIMED_WHOLE.format(subject=subject, figure=figure, records=records)


def _is_void(facts: StatementFacts) -> bool:
    """Whether the claim about whole records fails: it is one about people, and people were published."""
    return bool(facts.from_people) and facts.unit == "person"


def _claim(facts: StatementFacts) -> str:
    if facts.releases:
        return _claim_with_held_counts(facts)
    total = facts.budget.total
    pure = facts.budget.framework is Framework.PURE_DP
    odds = math.exp(float(total)) if total < _LARGEST_EXPONENT else math.inf
    if pure:
        figure, about = f"**epsilon = {total}** (pure differential privacy)", ""
        exact = worst_epsilon(facts.compositions, facts.delta)
        if exact is not None and exact.high < total:
            about = (
                f"The same noise has epsilon {rounded_up(exact.high, 5)} at most at delta = {float(facts.delta):g}, by"
                " the exact composition of all measured answers."
            )
    else:
        figure = f"**rho = {total}** (zero-concentrated differential privacy), about {float(total):.6g}"
        about = (
            f"It implies (epsilon, delta)-differential privacy; at delta = {float(facts.delta):g}:\n\n"
            "| conversion | epsilon |\n|---|---|\n"
            f"| Canonne, Kamath, Steinke (2020), the tighter one | {epsilon_cks(total, facts.delta):.5f} |\n"
            f"| Bun, Steinke (2016) | {epsilon_bun_steinke(total, facts.delta):.5f} |\n"
            f"{_exact_row(facts)}\n"
            "These figures say the same about the same noise; compare only figures of one kind."
        )
    if _is_void(facts):
        text = _not_claimed_as_a_whole("this run publishes", figure, facts.protected)
        claim = f"{text}\nThe figure: {about[0].lower()}{about[1:]}" if about else text.rstrip()
    elif pure:
        true = f"the true record of one {facts.one} as with any other record in its place"
        if facts.budget.at_most > 1:
            true = f"the true records of one {facts.contributor} as with any others in their place"
        claim = (
            f"{figure}. Whatever is seen in the outputs, it was at most exp(epsilon) = {odds:.4g} times as probable"
            f" with {true}, as long as both populations agree in everything that is published exactly."
        )
        claim += f" {about}" if about else ""
    else:
        claim = f"{figure}. {about}"
    return f"## The claim\n\n{claim}\n\nAll numbers of this page that are fractions are exact; nothing was rounded.\n"


def _claim_with_held_counts(facts: StatementFacts) -> str:
    """Claim what all releases cost together from which the outputs of the run follow."""
    exact = worst_epsilon(facts.compositions, facts.delta)
    claim = _claim_of_releases(
        facts.releases, facts.relation, facts.delta, None if exact is None else exact.high, void=_is_void(facts)
    )
    run_ids = [name_of_run(entry) for entry in facts.releases]
    others = ", ".join(map(code, run_ids[1:]))
    why = (
        f"The estimates of this run are held to counts that other releases ({others}) published. So everything this run"
        " publishes follows from the noisy answers of these releases together:\n\n"
    )
    return claim + "\n" + why + "\n".join(_table_of_releases(facts.releases, run_ids, facts.delta)) + "\n"


def _exact_row(facts: StatementFacts) -> str:
    """The row of the exact composition, or why there is none."""
    exact = worst_epsilon(facts.compositions, facts.delta)
    if exact is None:
        why = (
            "noise is Gaussian, and a contributor has several records"
            if facts.budget.at_most > 1
            else "geounits have shares of their own, of too many kinds"
        )
        return f"\nAn exact composition is not given, since {why}: the conversions hold.\n"
    return f"| exact composition of all measured answers, at most | {rounded_up(exact.high, 5)} |\n"


def _worth_of_claims(facts: StatementFacts) -> str:
    """What an attacker with any prior can come to believe, by the trade-off of his two errors."""
    who = f"one {facts.one}" if facts.budget.at_most == 1 else f"one {facts.contributor}"
    whole = () if _is_void(facts) else worst_odds(facts.compositions, *facts.cost)
    rows = [("the whole record" if facts.budget.at_most == 1 else "all the records", whole)] if whole else []
    if not facts.releases:  # what the other releases tell of an attribute stands in their statements
        rows += [(f"attribute `{loss.name}`", loss.odds) for loss in facts.attributes if loss.odds]
        rows += [(f"place within the {loss.name}", loss.odds) for loss in facts.within if loss.odds]
    if not rows:
        return ""
    lines = [
        "## What an attacker can come to believe",
        "",
        f"Somebody knows all other records, and of {who} everything but what stands in the first column. He holds some"
        " odds that it is one value rather than others, whatever they are and wherever he has them from. He looks at"
        " all noisy answers, or at anything that was made of them, and claims that it is this value, whenever a rule of"
        " his says so. If the rule lets him make the claim in at least so many of the cases where it is true, then his"
        " odds, once the claim is made, are at most the following number of times those he held before. The more rarely"
        " a claim is made, the more it can be worth; epsilon is about cases as rare as delta.",
        "",
        f"| unknown | {' | '.join(f'claims in 1 of {int(1 / power):,} true cases' for power in POWERS)} |",
        "|---" * (1 + len(POWERS)) + "|",
    ]
    lines += [f"| {name} | {' | '.join(map(odds_text, odds))} |" for name, odds in rows]
    return "\n".join(lines) + "\n"


def _missed(facts: StatementFacts) -> str:
    """How often tests miss at least, at a few type I errors."""
    whole = () if _is_void(facts) else facts.compositions
    rows = [Unknown("the whole record" if facts.budget.at_most == 1 else "all the records", whole)] if whole else []
    if not facts.paths and not facts.releases:  # of the worst pair of paths every curve takes seconds
        rows += [*unknowns_of(facts.attributes, "attribute `", "`"), *unknowns_of(facts.within, "place within the ")]
    if not rows:
        return ""
    shown = [f"{100 * each:g} %" for each in _TYPE_ONE]
    lines = [
        "## How often a test must miss",
        "",
        "Somebody decides, as above, whether it is one value or another, by any rule. If the rule takes the other value"
        " for this one in at most so many cases (type I error), then it misses this one in at least the following part"
        " of the cases in which it is this one (type II error). A rule that looks at nothing misses all the others.",
        "",
        f"| unknown | {' | '.join(f'type I error {each}' for each in shown)} |",
        "|---" * (1 + len(shown)) + "|",
    ]
    for unknown in rows:
        least = unknown.least_misses(_TYPE_ONE)[0]
        lines.append(f"| {unknown.name} | {' | '.join(f'{percent_at_least(each)} %' for each in least)} |")
    return "\n".join(lines) + "\n"


def _neighbours(facts: StatementFacts) -> str:
    within = facts.stays
    subject = "What is said of everything together" if _is_void(facts) else "The claim"
    if facts.budget.at_most > 1:
        return _contributions(facts, subject, within)
    text = (
        "## What is protected\n\n"
        f"One record of one {facts.one}. {subject} compares any two populations that differ in one record, replaced by"
        f" another one{within}, and that agree in everything that is published exactly. In each geolevel a replaced"
        " record changes at most two answers of a query, by one each.\n"
    )
    if facts.bound:
        text += f"\n{facts.bound}\n"
    if facts.unit == "unit" and facts.from_people:
        text += "\nThe claim is one about records of units alone. It says nothing of the people above.\n"
    if facts.unit == "household":
        return text + _changed_household(facts)
    return text + _moving_household(facts) if facts.unit == "unit" else text


def _contributions(facts: StatementFacts, subject: str, within: str) -> str:
    """What is protected where a contributor has several records, and what of a single one."""
    most, total, who = facts.budget.at_most, facts.budget.total, facts.contributor
    if facts.budget.framework is Framework.PURE_DP:
        norm, loss = f"their sum by {2 * most} at most", f"epsilon / {most} = {total / most}"
    else:
        norm, loss = f"the sum of squares by {2 * most * most} at most", f"rho / {most * most} = {total / most**2}"
    return (
        "## What is protected\n\n"
        f"All records of one {who}, of which there are at most {most}; one record is one {facts.one}. {subject}"
        f" compares any two populations in which all records of one {who} are replaced by others{within}, at most"
        f" {most} too, and that agree in everything that is published exactly. In each geolevel the answers of a query"
        f" change in absolute value {norm}, and the noise is drawn for that. What can be told of one record alone is at"
        f" most {loss}.\n\n{facts.bound}\n"
    )


def _changed_household(facts: StatementFacts) -> str:
    """Say what a record of a household is, and which changes of its people the claim covers."""
    total, exact = facts.budget.total, facts.relation.exact_at(HOUSEHOLD)
    if facts.budget.framework is Framework.PURE_DP:
        twice, half = f"2 epsilon = {2 * total}", f"epsilon / 2 = {total / 2}"
    else:
        twice, half = f"4 rho = {4 * total}", f"rho / 2 = {total / 2}"
    if exact:
        moves = (
            f" The number of households in {any_geounit(exact)} is published exactly. A household that moves"
            f"{same_geounits(exact)} changes one record. One that moves elsewhere, is formed or is dissolved changes an"
            " exact number: of this nothing is claimed."
        )
    else:
        moves = (
            " A household that moves into a vacant unit changes one record, and leaves its own unit vacant. One that is"
            f" formed or dissolved changes one answer of each query, and what can be told of it is at most {half}."
        )
    return (
        f"\nThe record is that of a household: where it lives{facts.record_says}. One record changed means another"
        f" household in its place, or the same one elsewhere.{moves} A person who comes, goes or grows older changes"
        " the record of the household at most. A person who moves from a household to another, both of which remain,"
        f" changes two records, and what can be told of it is at most {twice}. Of what the record does not say about"
        " the people of a household this page says nothing.\n"
    )


def _moving_household(facts: StatementFacts) -> str:
    """Say what the claim of a run on units means for a household, which is no record of it."""
    total, units, occupied = facts.budget.total, facts.relation.exact_at(UNIT), facts.relation.occupied_at
    if facts.budget.framework is Framework.PURE_DP:
        loss = f"at most 2 epsilon = {2 * total}"
    else:
        loss = (
            f"at most 4 rho = {4 * total} by group privacy, and 2 rho = {2 * total} where nothing else about the two"
            " units changes, since they then change different answers, or the changes cancel"
        )
    stays = ""
    if units:
        stays = (
            f" A unit stays{same_geounits(units)} between neighbours. One that is built, torn down, or turned into"
            f" group quarters or back changes the number of units in {any_geounit(units)}, which is exact: of this"
            " nothing is claimed."
        )
    elsewhere = ""
    if occupied:
        stays += (
            f" The number of occupied units in {any_geounit(occupied)} is exact, too: whether a single unit is occupied"
            " is not protected."
        )
        elsewhere = f" This holds for a move{same_geounits(occupied)}; of any other nothing is claimed."
    return (
        f"\nThe record is that of a unit: where it is{facts.record_says}.{stays} A household that moves"
        " changes two records, that of the unit which it leaves and that of the unit which it enters, so that before"
        f" and after are not neighbours, but two steps apart: what can be told of the move is {loss}.{elsewhere} Of the"
        " people in the household this page says nothing.\n"
    )


def _spending(facts: StatementFacts) -> str:
    budget = facts.budget
    pure = budget.framework is Framework.PURE_DP
    symbol, scale = budget.framework.symbol, "scale" if pure else "sigma^2"
    distribution = "discrete Laplace" if pure else "discrete Gaussian"
    lines = [
        "## Where it is spent",
        "",
        f"Every answer gets integer noise of the {distribution} distribution, drawn exactly. The shares of the levels"
        " sum to 1, and so do those of the queries of each level.",
        "",
        f"| geolevel | share | query | share | {symbol} | {scale} | standard deviation |",
        "|---|---|---|---|---|---|---|",
    ]
    for level in budget.levels:
        for item in level.queries:
            mechanism = budget.mechanism(level.geolevel, item.query)
            parameter = mechanism.scale if isinstance(mechanism, DiscreteLaplace) else mechanism.sigma_squared
            deviation = math.sqrt(mechanism.variance())
            spent = budget.spent(level.geolevel, item.query)
            lines.append(
                f"| {level.geolevel} | {level.share} | {item.query} | {item.share} | {spent} | {parameter}"
                f" | {deviation:.5g} |"
            )
    return "\n".join(lines) + "\n" + _own_shares(facts)


def _own_shares(facts: StatementFacts) -> str:
    """How the budget is shared on the paths of a spine whose geounits have shares of their own."""
    if not facts.paths:
        return ""
    names = [level.geolevel for level in facts.budget.levels]
    lines = ["", f"| {' | '.join(names)} | lowest geounits |", "|---" * (len(names) + 1) + "|"]
    shown = list(facts.paths.items())[:_MOST_PATHS]
    lines += [f"| {' | '.join(path)} | {number:,} |" for path, number in shown]
    left = sum(facts.paths.values()) - sum(number for _, number in shown)
    lines += [f"| {' | '.join(['...'] * len(names))} | {left:,} |"] if left else []
    return _OWN_SHARES.format(paths=len(facts.paths)) + "\n".join(lines) + "\n"


def _whose(intro: str, facts: StatementFacts) -> str:
    """Adapt an introduction about one record: to all records of a contributor, and to a run that is held to others."""
    if facts.releases:
        intro = f"{_OWN_ANSWERS} {intro}"
    if facts.budget.at_most == 1:
        return intro
    of_all = intro.replace("one record alone", f"the records of one {facts.contributor} alone")
    return of_all.replace("about it being", "about them being")


def _partial(heading: str, intro: str, column: str, losses: Sequence[Loss], facts: StatementFacts) -> str:
    if not losses:
        return ""
    framework = facts.budget.framework
    symbol = framework.symbol
    lines = [heading, "", intro, ""]
    if framework is Framework.PURE_DP:
        lines += [f"| {column} | {symbol} | exact, at delta {float(facts.delta):g} |", "|---|---|---|"]
        lines += [f"| {loss.name} | {loss.spent} | {_exact_loss(loss)} |" for loss in losses]
    else:
        lines += [
            f"| {column} | {symbol} | epsilon (Canonne, Kamath, Steinke) | delta | exact composition, at most |",
            "|---|---|---|---|---|",
        ]
        lines += [
            f"| {loss.name} | {loss.spent} | {loss.epsilon:.4f} | {float(loss.delta):g} | {_exact_loss(loss)} |"
            for loss in losses
        ]
    return "\n".join(lines) + "\n"


def _exact_loss(loss: Loss) -> str:
    return "-" if loss.exact is None else rounded_up(loss.exact.high)


def _left_out(facts: StatementFacts) -> str:
    """Of what no partial loss is stated, since exact numbers tell of it."""
    if not _is_void(facts):
        return ""
    return (
        "## Of what no loss is stated\n\n"
        "Of where in a geounit a person lives, and of whether in a household or in which type of group quarters: the"
        " numbers that this page opens with tell of both. The other attributes do not enter into them.\n"
    )


def _not_claimed(facts: StatementFacts) -> tuple[str, ...]:
    """What every claim leaves open, of people or of what else is counted."""
    if not facts.noun:
        return _NOT_CLAIMED
    words = (("about a person from", f"about one {facts.noun} from"), ("the same people", "the same records"))
    said: tuple[str, ...] = _NOT_CLAIMED
    for people, records in words:
        said = tuple(sentence.replace(people, records) for sentence in said)
    return said


def _randomness(facts: StatementFacts) -> str:
    if facts.external_noise:
        text = (
            "The noise was drawn by whoever published the measurements. This software did not draw it and cannot say"
            " how; the claim above holds as far as theirs does."
        )
    elif facts.insecure:
        text = "All noise of the run follows from a text that somebody chose, by AES-256: it protects nobody."
    else:
        text = (
            "All noise of the run follows from one 256-bit key of the operating system, by AES-256. The guarantee is"
            " therefore computational: it holds against anybody who cannot break AES-256. The key was never written,"
            " and is not needed to use or to check the outputs."
        )
    return f"## Where the randomness comes from\n\n{text}\n"


def _all_runs(facts: StatementFacts) -> str:
    if not facts.all_runs:
        return ""
    text = f"{ALL_RUNS}\n{facts.all_runs}"
    return text + (f" {_NO_PRICE}\n" if facts.from_people else "\n")


def _bullets(heading: str, items: Sequence[str], *, empty: str = "") -> str:
    if not items:
        return f"{heading}\n\n{empty}\n" if empty else ""
    return "\n".join([heading, "", *(f"- {escaped(item)}" for item in items)]) + "\n"


_MOVING = (
    "A household that moves changes the records of all its people{changed}, and its cost is the sum of"
    " theirs: in pure differential privacy so many times the epsilon of each part as it changes records of it, in"
    " zero-concentrated differential privacy at most the square of that number times its rho.\n"
)
#: Kinds of records other than people that a joint run has -> the home of a person, and what a move changes besides.
_LIVING: Final[Mapping[tuple[str, ...], str]] = {
    (): "her other record",
    ("unit",): "the housing unit that she lives in",
    ("household",): "her household",
    ("household", "unit"): "her household and the housing unit that it lives in",
}
_CHANGED: Final[Mapping[tuple[str, ...], str]] = {
    ("unit",): " and those of two units",
    ("household",): " and its own",
    ("household", "unit"): ", its own, and those of two units",
}


@dataclass(frozen=True, slots=True)
class JointPart:
    """One run of a joint run.

    Attributes:
        record: What one record of it is: "person", "unit" or "household".
        run_id: Name of the run.
        entry: What it cost.
        invariants: What it publishes exactly, each a sentence.
        notices: Sentences that every file of it carries.
        from_people: What it publishes exactly although it follows from people, each half a sentence.
    """

    record: str
    run_id: str
    entry: LedgerEntry
    invariants: tuple[str, ...]
    notices: tuple[str, ...] = ()
    from_people: tuple[str, ...] = ()


def joint_statement(
    run_id: str,
    parts: Sequence[JointPart],
    delta: Fraction = PUBLISHED_DELTA,
    *,
    held_to: Sequence[LedgerEntry] = (),
    ledger: Ledger | None = None,
    contradictions: Sequence[str] = (),
) -> str:
    """Write the statement of a joint run.

    Args:
        run_id: Name of the joint run.
        parts: Its runs.
        delta: For the conversions.
        held_to: Entries of other releases whose published counts the estimates of parts are held to.
        ledger: All runs on the dataset, these included.
        contradictions: In how many geounits parts contradict each other, each a sentence.

    Returns:
        Markdown.
    """
    releases = [*(part.entry for part in parts), *held_to]
    counts = (entry.exact_counts for entry in releases)
    relation = NeighborRelation(tuple(count for count in counts if count is not None))
    exact = list(dict.fromkeys(sentence for part in parts for sentence in part.invariants))
    notices = list(dict.fromkeys(sentence for part in parts for sentence in part.notices))
    from_people = list(dict.fromkeys(each for part in parts for each in part.from_people))
    sections = [
        f"# Privacy statement of joint run {code(run_id)}\n",
        *[f"> **{escaped(sentence)}**\n" for sentence in notices],
        _published_nearly_exactly(from_people),
        _claim_of_releases(releases, relation, delta, _exact_joint(releases, delta), void=bool(from_people)),
        _MOVING.format(changed=_CHANGED[_kinds(parts)]) if _kinds(parts) in _CHANGED else "",
        _joint_table(parts, held_to, delta),
        "## What is published exactly, by any part\n",
        "\n".join(
            f"- {escaped(sentence)}"
            for sentence in [*exact, *invariants_of(held_to)] or ["Nothing: there are no invariants."]
        )
        + "\n",
        _contradicting(contradictions),
        *([] if ledger is None else [f"{ALL_RUNS}\n{ledger.describe(delta, parts[0].entry.run_id)}\n"]),
        PARTS_ALONE,
        "\n".join(
            f"- {code(f'{part.run_id}/public/privacy_statement.md')}: the {part.record} records alone" for part in parts
        )
        + "\n",
    ]
    return "\n".join(section for section in sections if section)


def _contradicting(sentences: Sequence[str]) -> str:
    if not sentences:
        return ""
    listed = "\n".join(f"- {escaped(sentence)}" for sentence in sentences)
    return (
        "## Where the parts contradict each other\n\nEach part is protected apart, and its noise is its own, so that"
        " parts say what cannot be true together, and what no true census has. In what is published it is so\n\n"
        f"{listed}\n"
    )


def joint_costs(spendings: Sequence[Budget | LedgerEntry], delta: Fraction = PUBLISHED_DELTA) -> dict[str, object]:
    """What several runs cost together, as JSON values.

    Args:
        spendings: Their budgets, or their entries of the ledger.
        delta: For the conversions.

    Returns:
        Sums of epsilon and rho as exact text, the joint epsilon at delta by the conversions, and that of the exact
        composition from above, None where it is not known.
    """
    total = compose(spendings)
    return {
        "epsilon": str(total.epsilon),
        "rho": str(total.rho),
        "joint_epsilon": total.joint_epsilon(delta),
        "exact_epsilon_at_most": _exact_joint(spendings, delta),
        "delta": float(delta),
    }


def _exact_joint(spendings: Sequence[Budget | LedgerEntry], delta: Fraction) -> float | None:
    """The upper end of the exact composition of runs, whose geounits have the share of their geolevel."""
    composed = compose_exactly(
        [spending if isinstance(spending, Budget) else spending.budget for spending in spendings]
    )
    return None if composed is None else composed.epsilon(delta).high


def _kinds(parts: Sequence[JointPart]) -> tuple[str, ...]:
    """Kinds of records other than people, in alphabetical order."""
    return tuple(sorted({part.record for part in parts} - {"person"}))


def _claim_of_releases(
    entries: Sequence[LedgerEntry], relation: NeighborRelation, delta: Fraction, exact: float | None, *, void: bool
) -> str:
    """Claim what several releases cost together, for neighbours that differ in one record of each kind."""
    total, kinds = compose(entries), tuple(dict.fromkeys(entry.table for entry in entries))
    if total.rho == 0:
        figure = f"**epsilon = {total.epsilon}** (pure differential privacy)"
    elif total.epsilon == 0:
        figure = (
            f"**rho = {total.rho}** (zero-concentrated differential privacy), about {float(total.rho):.6g}: epsilon"
            f" {epsilon_cks(total.rho, delta):.5f} at delta {float(delta):g} (Canonne, Kamath, Steinke 2020), or"
            f" {epsilon_bun_steinke(total.rho, delta):.5f} (Bun, Steinke 2016)"
        )
    else:
        figure = (
            f"**epsilon = {total.epsilon} and rho = {total.rho}** in different parts, together epsilon"
            f" {total.joint_epsilon(delta):.5f} at delta {float(delta):g}"
        )
    if exact is not None and (total.rho or exact < total.epsilon):
        figure += (
            f"; by exact composition of all answers, for geounits that have the share of their geolevel, epsilon"
            f" {rounded_up(exact, 5)} at most{'' if total.rho else f' at delta {float(delta):g}'}"
        )
    records = replaced_records(entries, relation)
    home = _LIVING.get(tuple(sorted({*kinds} - {"person"}))) if "person" in kinds and len(kinds) > 1 else None
    example = f", such as a person and {home}" if home else ""
    each = ", each replaced by another record" if len(kinds) > 1 else ", replaced by another"
    if void:
        claim = _not_claimed_as_a_whole("the parts publish", figure, records)
    else:
        claim = (
            f"{figure}.\n\nIt holds for populations that differ in {records}{example}{each}, and that agree in"
            " everything that any part publishes exactly."
        )
    return (
        f"## The claim\n\n{claim.rstrip()}\n\nThe parts draw their noise from keys of their own; their costs add up, in"
        " exact fractions.\n"
    )


def _table_of_releases(entries: Sequence[LedgerEntry], run_ids: Sequence[str], delta: Fraction) -> list[str]:
    lines = ["| record | run | product | cost | epsilon |", "|---|---|---|---|---|"]
    for entry, run_id in zip(entries, run_ids, strict=True):
        alone = compose([entry])
        cost = f"rho = {alone.rho}" if alone.rho else f"epsilon = {alone.epsilon}"
        at = f" at delta {float(delta):g}" if alone.rho else ""
        epsilon = f"{alone.joint_epsilon(delta):.5f}{at}"
        lines.append(f"| {entry.table} | {escaped(run_id)} | {escaped(entry.product)} | {cost} | {epsilon} |")
    return lines


def _joint_table(parts: Sequence[JointPart], held_to: Sequence[LedgerEntry], delta: Fraction) -> str:
    entries = [*(part.entry for part in parts), *held_to]
    run_ids = [*(part.run_id for part in parts), *map(name_of_run, held_to)]
    text = "\n".join(["## The parts", "", *_table_of_releases(entries, run_ids, delta)]) + "\n"
    if held_to:
        names = ", ".join(code(name_of_run(entry)) for entry in held_to)
        text += f"\nParts are held to counts that {names} published: these releases belong to the claim, too.\n"
    return text


def name_of_run(entry: LedgerEntry) -> str:
    """Return the name of a run without what tells it from other runs of its name."""
    return entry.run_id.partition("#")[0]


def invariants_of(entries: Sequence[LedgerEntry]) -> list[str]:
    """Return what other releases publish exactly, in sentences that name them."""
    return [
        f"By run {name_of_run(entry)}: {sentence}"
        for entry in entries
        for sentence in (
            ("what it publishes exactly was not recorded; see its manifest.",)
            if entry.invariants is None
            else entry.invariants.sentences
        )
    ]
