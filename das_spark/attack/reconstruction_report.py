"""What the reconstruction of a sample of geounits says of a run: rates with standard errors, and their report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from das_spark.attack.agreement import GROUPS
from das_spark.attack.reconstruction import NODES, Outcome
from das_spark.attack.reconstruction_tally import (
    EXACT,
    MEASURES,
    METHODS,
    PROTECTED,
    SOURCES,
    SWAPPED,
    TOTALS_OF,
    ReconstructionTally,
    guess_names,
)
from das_spark.attack.sample import Estimate, StratifiedSample
from das_spark.attack.sizes import size_names, size_of
from das_spark.report import (
    EVERYWHERE,
    PEOPLE,
    STROKES,
    TERMINAL,
    Axis,
    Cell,
    Curve,
    Figure,
    Panel,
    ReportSection,
    ReportTable,
    percent,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: The group of records that are alone in their cell.
ALONE: Final = GROUPS[-1]
#: The class of geounits of every size.
EVERY_SIZE: Final = "all"


@dataclass(frozen=True, slots=True)
class Reconstructed:
    """What was reconstructed, and how.

    Attributes:
        run: Name of the run.
        product: Name of its product.
        counted: What is counted, in the plural.
        geolevel: The lowest geolevel, whose geounits are reconstructed.
        near: The geolevel of the area near by.
        whole: The top geolevel.
        tables: The tables that are published of these geounits.
        columns: Columns of these tables.
        within: What is asked of records that agree within one.
        held: What records that the swapped baseline exchanges have in common; empty for nothing.
        swapped: Share of the records that it exchanges, at most.
        seed: Of the sample and of that exchange.
        geounits: Geounits with somebody in them, by class of size.
        taken: How many of each class are in the sample.
    """

    run: str
    product: str
    counted: str
    geolevel: str
    near: str
    whole: str
    tables: tuple[str, ...]
    columns: int
    within: str
    held: str
    swapped: Fraction
    seed: int
    geounits: tuple[int, ...]
    taken: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AgreementRate:
    """Share of the true records of a group that agree with those reconstructed from the tables of one source.

    Attributes:
        source: Whose tables, a name in `SOURCES`.
        group: Of true records, a name in `GROUPS`.
        size: Class of the geounits, or `EVERY_SIZE`.
        measure: How they agree, a name in `MEASURES`.
        geounits: In the sample.
        records: Estimated number of true records of the group.
        rate: Share that agrees.
        guess: The best guess with as many records, a name in `GUESSES`; empty where nothing is guessed.
        guessed: Share that agrees with it.
        lift: Rate less that of the guess.
    """

    source: str
    group: str
    size: str
    measure: str
    geounits: int
    records: float
    rate: Estimate
    guess: str
    guessed: Estimate
    lift: Estimate


@dataclass(frozen=True, slots=True)
class SolutionRate:
    """How many solutions there are, and how right they are, from the tables of one source.

    Attributes:
        source: Whose tables, a name in `SOURCES`.
        size: Class of the geounits, or `EVERY_SIZE`.
        geounits: In the sample.
        one: Share of geounits with one solution.
        records_in_one: Share of true records in these.
        agreement_in_one: Share of these records that agree exactly.
        distance: Largest distance of another solution, as a share of the largest possible (every record is another).
        precision: Share of the reconstructed records that exist.
        undecided: Geounits of the sample whose other solutions were not all looked for, as nodes ran out; the distance
            is at least that.
        unsolved: Geounits of the sample without a solution within the limits; their records count as not reconstructed.
        infeasible: Geounits of the sample whose tables nothing meets; likewise.
        variables: Most variables of a program.
    """

    source: str
    size: str
    geounits: int
    one: Estimate
    records_in_one: Estimate
    agreement_in_one: Estimate
    distance: Estimate
    precision: Estimate
    undecided: int
    unsolved: int
    infeasible: int
    variables: int


@dataclass(frozen=True, slots=True)
class ReconstructionFindings:
    """What the reconstruction of a sample of geounits says of a run."""

    about: Reconstructed  #: what was reconstructed, and how
    rates: tuple[AgreementRate, ...]  #: by source, group, class of size and measure
    solutions: tuple[SolutionRate, ...]  #: by source and class of size

    def rate(
        self, source: str, group: str = GROUPS[0], measure: str = MEASURES[0], size: str = EVERY_SIZE
    ) -> AgreementRate:
        """One of the rates.

        Raises:
            KeyError: There is none.
        """
        wanted = (source, group, measure, size)
        for each in self.rates:
            if (each.source, each.group, each.measure, each.size) == wanted:
                return each
        raise KeyError(wanted)

    @property
    def verdict(self) -> str:
        """One sentence."""
        run, exact = (self.rate(source, ALONE) for source in (PROTECTED, EXACT))
        if not run.records:
            return f"Reconstruction: no record is alone in its cell of its {self.about.geolevel}."
        return (
            f"Reconstruction from the tables agrees with {run.rate.value:.1%} of unique records; the best guess with"
            f" {run.guessed.value:.1%}, and reconstruction from exact tables would with {exact.rate.value:.1%}."
        )


def findings_of(tallies: Sequence[ReconstructionTally], about: Reconstructed) -> ReconstructionFindings:
    """Estimate rates from the geounits of the sample.

    Args:
        tallies: One a geounit of the sample.
        about: What was reconstructed; it has the number of geounits of each class.
    """
    sample = _Sample(tallies, about)
    sizes = [None, *(place for place, taken in enumerate(about.taken) if taken)]
    return ReconstructionFindings(
        about,
        tuple(
            sample.rate(source, group, size, measure)
            for source in SOURCES
            for group in range(len(GROUPS))
            for size in sizes
            for measure in range(len(MEASURES))
        ),
        tuple(sample.solutions(source, size) for source in SOURCES for size in sizes),
    )


class _Sample:
    """The numbers of all geounits of a sample, side by side."""

    def __init__(self, tallies: Sequence[ReconstructionTally], about: Reconstructed) -> None:
        self.records = np.array([tally.records for tally in tallies])  # (n, groups)
        self.agreed = np.array([tally.agreed for tally in tallies])  # (n, methods, groups, measures)
        self.made = np.array([tally.made for tally in tallies])  # (n, methods)
        self.distances = np.array([tally.distances for tally in tallies])  # (n, sources)
        self.decided = np.array([tally.decided for tally in tallies])
        self.variables = np.array([tally.variables for tally in tallies])
        self.ended = {source: np.array([tally.ended(source) for tally in tallies]) for source in SOURCES}
        stratum = size_of(self.records[:, 0])
        self.sample = StratifiedSample(stratum, np.array(about.geounits))

    def _domain(self, size: int | None) -> NDArray[np.int64]:
        """1 for the geounits of a class, and 0 for others."""
        return np.ones(len(self.records), dtype=np.int64) if size is None else 1 * (self.sample.stratum == size)

    def rate(self, source: str, group: int, size: int | None, measure: int) -> AgreementRate:
        """A rate, and that of the best guess."""
        within = self._domain(size)
        records = self.records[:, group] * within
        agreed = {method: self.agreed[:, METHODS.index(method), group, measure] * within for method in METHODS}
        of_guesses = {each: self.sample.ratio(agreed[each], records) for each in guess_names(TOTALS_OF[source])}
        best = max(of_guesses, key=lambda name: of_guesses[name].value)  # the first of equal ones
        return AgreementRate(
            source,
            GROUPS[group],
            _size(size),
            MEASURES[measure],
            int(within.sum()),
            self.sample.total(records),
            self.sample.ratio(agreed[source], records),
            best.rpartition(", ")[0],
            of_guesses[best],
            self.sample.ratio(agreed[source] - agreed[best], records),
        )

    def solutions(self, source: str, size: int | None) -> SolutionRate:
        """How many solutions there are, and how right they are."""
        within, number = self._domain(size), SOURCES.index(source)
        ended, everybody, made = self.ended[source], self.records[:, 0] * within, self.made[:, number] * within
        one = within * (ended == Outcome.ONE)
        agreed = self.agreed[:, number, 0, 0] * within
        ratio = self.sample.ratio
        return SolutionRate(
            source,
            _size(size),
            int(within.sum()),
            ratio(one, within),
            ratio(one * everybody, everybody),
            ratio(one * agreed, one * everybody),
            ratio(self.distances[:, number] * within, 2 * made),
            ratio(agreed, made),
            undecided=int((within * (1 - self.decided[:, number])).sum()),
            unsolved=int((within * (ended == Outcome.LIMIT)).sum()),
            infeasible=int((within * (ended == Outcome.INFEASIBLE)).sum()),
            variables=int((within * self.variables[:, number]).max()),
        )


def _size(place: int | None) -> str:
    return EVERY_SIZE if place is None else size_names()[place]


_GROUP_NAMES: Final = {
    "all": "all {counted}",
    "nonmodal": "not in the most frequent cell of their {geolevel}",
    "nonmodal near": "not in the most frequent cell of their {near}",
    "unique": "alone in their cell of the {geolevel}",
}
_GUESS_NAMES: Final = {
    "modal near": "most frequent cell of the {near}",
    "proportional near": "in proportion to the {near}",
    "modal whole": "most frequent cell of the {whole}",
    "proportional whole": "in proportion to the {whole}",
    "": "none",
}
_SOURCE_NAMES: Final = {
    PROTECTED: "tables of the run",
    EXACT: "exact tables",
    SWAPPED: "exact tables after swapping",
}
_MEASURE_NAMES: Final = {"exact": "exactly", "within": "within one"}
#: Long tables are on the page, folded, and in files.
_NOT_PRINTED: Final = EVERYWHERE - TERMINAL
_RATE_COLUMNS: Final = (
    ("source", "records from"),
    ("group", "true records"),
    ("size", "records in the geounit"),
    ("measure", "agree"),
    ("geounits", "geounits looked at", ",d"),
    ("records", "true records, estimated", ",.0f"),
    ("agreement", "", ".2%"),
    ("agreement_error", "error", ".2%"),
    ("guess", "best guess"),
    ("guess_agreement", "agreement of the guess", ".2%"),
    ("lift", "", "+.2%"),
    ("lift_error", "error of the lift", ".2%"),
)
_SOLUTION_COLUMNS: Final = (
    ("source", "records from"),
    ("size", "records in the geounit"),
    ("geounits", "geounits looked at", ",d"),
    ("one", "with one solution", ".2%"),
    ("one_error", "error", ".2%"),
    ("records_in_one", "true records in these", ".2%"),
    ("agreement_in_one", "of which agree", ".2%"),
    ("distance", "largest difference", ".2%"),
    ("precision", "", ".2%"),
    ("precision_error", "error", ".2%"),
    ("undecided", "", ",d"),
    ("unsolved", "", ",d"),
    ("infeasible", "nothing meets them", ",d"),
    ("variables", "most variables", ",d"),
)
#: Tables that a sentence names, at most.
_NAMED: Final = 8
_NOTE: Final = (
    "Agreement: share of the true records of a group that are among the reconstructed ones; a reconstructed record "
    "agrees with one true one at most. Within one: {within}. Best guess: of four guesses with as many records as the "
    "tables say, which use nothing of the {geolevel} but that number, the one that agrees most with this group. Lift: "
    "agreement less that of the best guess; what is not above 0 is no more than what is known without these tables. "
    "Errors are standard errors of the sample of geounits, not of the run's noise."
)
_SOLUTIONS: Final = (
    "One solution: no other records have the same tables. Largest difference: how far the records of another solution "
    "can be from those reconstructed, at most; 100 % where all of them can be others. Precision: share of the "
    "reconstructed records that exist. Undecided: the search for other solutions ended at {nodes:,} nodes. Unsolved: "
    "no solution within that limit, or too many cells; these {counted} count as not reconstructed."
)


def present_reconstruction(findings: ReconstructionFindings) -> tuple[ReportSection, ...]:
    """The section of a report: text, tables and a figure."""
    about = findings.about
    geounit = about.geolevel
    overall = [_rate_row(rate, about) for rate in findings.rates if rate.size == EVERY_SIZE]
    sized = [_rate_row(rate, about) for rate in findings.rates if rate.size != EVERY_SIZE]
    note = _NOTE.format(within=about.within, geolevel=geounit)
    solutions = _SOLUTIONS.format(nodes=NODES, counted=about.counted)
    of_size = f"{about.counted} in the {geounit}"
    classes = zip(size_names(), about.geounits, about.taken, strict=True)
    blocks = (
        _what(about),
        _at_a_glance(findings, note),
        _figure(findings),
        ReportTable.of("reconstruction", "Every rate", _RATE_COLUMNS, overall, folded=True, media=_NOT_PRINTED),
        ReportTable.of(
            "reconstruction_by_size",
            f"Every rate by {of_size}",
            _RATE_COLUMNS,
            sized,
            folded=True,
            media=_NOT_PRINTED,
        ),
        ReportTable.of(
            "reconstruction_solutions",
            "How many solutions there are",
            _SOLUTION_COLUMNS,
            map(_solution_row, findings.solutions),
            note=solutions,
        ),
        _published(findings),
        ReportTable.of(
            "reconstruction_sample",
            "The sample",
            (("size", of_size), ("geounits", "", ",d"), ("taken", "looked at", ",d")),
            classes,
            folded=True,
        ),
    )
    return (ReportSection("Reconstruction", blocks),)


def _what(about: Reconstructed) -> str:
    every, taken = sum(about.geounits), sum(about.taken)
    sample = f"all {every:,}" if taken == every else f"{taken:,} of {every:,}, a sample by size with seed {about.seed}"
    held = f", alike in {about.held}," if about.held else ""
    tables = ", ".join(about.tables) if len(about.tables) <= _NAMED else f"{len(about.tables)} tables"
    return (
        f"The records of each {about.geolevel} with {about.counted} in it ({sample}) were reconstructed from the "
        f"{about.columns:,} columns of {tables} of that {about.geolevel} alone, by integer programs: "
        "whole nonnegative counts of cells that meet every column. Of several solutions that was taken whose records "
        f"are most frequent in the protected counts of the {about.near}. Beside the tables of the run stand the same "
        f"tables of exact counts, and of exact counts after up to {percent(about.swapped)} of the records{held} were "
        "exchanged within the geounit above, rare ones first. The run also publishes records: what is reconstructed "
        "from its tables says no more than these."
    )


def _at_a_glance(findings: ReconstructionFindings, note: str) -> ReportTable:
    """A row a group of records: agreement and lift of each source side by side, for people."""
    columns: list[tuple[str, str, str]] = [("group", "true records", ""), ("measure", "agree", "")]
    for source, words in _SOURCE_NAMES.items():
        columns += [
            (source, f"from {words}", ".1%"),
            (f"{source}_lift", "lift", "+.1%"),
            (f"{source}_error", "error", ".1%"),
        ]
    columns.append(("guess", "best guess, totals of the run", ".1%"))
    rows = []
    for group in GROUPS:
        for measure in MEASURES:
            rates = {source: findings.rate(source, group, measure) for source in SOURCES}
            row: dict[str, Cell] = _words_of(rates[PROTECTED], findings.about)
            for source, rate in rates.items():
                row |= {source: rate.rate.value, f"{source}_lift": rate.lift.value, f"{source}_error": rate.lift.error}
            rows.append(row | {"guess": rates[PROTECTED].guessed.value})
    title = "Agreement with the truth"
    return ReportTable.of("reconstruction_rates", title, columns, rows, note=note, media=PEOPLE)


def _words_of(rate: AgreementRate, about: Reconstructed) -> dict[str, Cell]:
    words = {"counted": about.counted, "geolevel": about.geolevel, "near": about.near}
    return {"group": _GROUP_NAMES[rate.group].format(**words), "measure": _MEASURE_NAMES[rate.measure]}


def _rate_row(rate: AgreementRate, about: Reconstructed) -> dict[str, Any]:
    words = {"near": about.near, "whole": about.whole}
    return {
        "source": _SOURCE_NAMES[rate.source],
        **_words_of(rate, about),
        "size": rate.size,
        "geounits": rate.geounits,
        "records": rate.records,
        "agreement": rate.rate.value,
        "agreement_error": rate.rate.error,
        "guess": _GUESS_NAMES[rate.guess].format(**words),
        "guess_agreement": rate.guessed.value,
        "lift": rate.lift.value,
        "lift_error": rate.lift.error,
    }


def _solution_row(rate: SolutionRate) -> dict[str, Any]:
    return {
        **asdict(rate),
        "source": _SOURCE_NAMES[rate.source],
        "one": rate.one.value,
        "one_error": rate.one.error,
        "records_in_one": rate.records_in_one.value,
        "agreement_in_one": rate.agreement_in_one.value,
        "distance": rate.distance.value,
        "precision": rate.precision.value,
        "precision_error": rate.precision.error,
    }


def _figure(findings: ReconstructionFindings) -> Figure:
    """Agreement of all records by size of the geounit, a panel a measure."""
    about, everybody = findings.about, GROUPS[0]
    sizes = [name for name, taken in zip(size_names(), about.taken, strict=True) if taken]
    places = range(len(sizes))
    axis = Axis(f"{about.counted} in the {about.geolevel}", ticks=tuple(zip(places, sizes, strict=True)))
    panels = []
    for measure in MEASURES:
        curves = []
        for number, source in enumerate(SOURCES):
            rates = [findings.rate(source, everybody, measure, size).rate.value for size in sizes]
            curves.append(Curve(places, rates, _SOURCE_NAMES[source], number, STROKES[number], number))
        for totals, stroke in zip((PROTECTED, EXACT), STROKES[1:], strict=False):
            rates = [findings.rate(totals, everybody, measure, size).guessed.value for size in sizes]
            curves.append(
                Curve(places, rates, f"best guess, totals of the {_SOURCE_NAMES[totals]}", None, stroke, None)
            )
        title = f"Agree {_MEASURE_NAMES[measure]}"
        panels.append(Panel(tuple(curves), axis, Axis("share of true records", low=0.0, high=1.02, form=".0%"), title))
    caption = (
        f"Share of all true records that agree with the reconstructed ones, by the number of records in the "
        f"{about.geolevel}. Grey: the best of four guesses that know that number alone."
    )
    return Figure(caption, tuple(panels), legend="above", title="Agreement by size")


def _published(findings: ReconstructionFindings) -> ReportTable:
    """Figures of the published reconstruction of 2010 beside those of this run."""
    run, exact = (findings.rate(source) for source in (PROTECTED, EXACT))
    near_run, near_exact = (findings.rate(source, measure=MEASURES[1]) for source in (PROTECTED, EXACT))
    solved = {solution.source: solution for solution in findings.solutions if solution.size == EVERY_SIZE}
    rows = (
        ("true records that agree exactly", "46 %", _DECLARATION, run.rate.value, exact.rate.value),
        ("true records that agree within one", "71 %", _DECLARATION, near_run.rate.value, near_exact.rate.value),
        (
            "blocks with one solution",
            "70 % (97 million people)",
            _PAPER,
            solved[PROTECTED].one.value,
            solved[EXACT].one.value,
        ),
        (
            "reconstructed records that are not exact",
            "20.1 % at most",
            _PAPER,
            1 - solved[PROTECTED].precision.value,
            1 - solved[EXACT].precision.value,
        ),
    )
    columns = (
        ("figure", "share of"),
        ("published", "published of 2010"),
        ("source", "by"),
        ("run", _SOURCE_NAMES[PROTECTED], ".2%"),
        ("exact", _SOURCE_NAMES[EXACT], ".2%"),
    )
    return ReportTable.of("reconstruction_published", "Published reconstructions", columns, rows, note=_DIFFERS)


#: Given to whole percents, as testimony and papers since repeat them.
_DECLARATION: Final = "J. Abowd, declaration of April 2021"
_PAPER: Final = "Abowd et al. 2023, arXiv 2312.11283"
_DIFFERS: Final = (
    "What differs: the Census Bureau reconstructed block, sex, age, race and origin of 308,745,538 people from tables "
    "of 2010 that were exact counts of swapped records, of blocks and of tracts together; here attributes are those of "
    "the product, tables those of one geounit alone, and the population is that of the run. In the first two lines of "
    "2010 ages are single years, and within one means a year; in the last line they are in 38 groups."
)
