"""The ledger of an input: exact round trips, and sums over every run."""

from __future__ import annotations

import hashlib
import itertools
import json
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from das_spark.errors import PrivacyGuardError
from das_spark.privacy import (
    PUBLISHED_DELTA,
    AttemptLine,
    Budget,
    Cap,
    DeclaredInvariants,
    DrawState,
    EntryState,
    Framework,
    Ledger,
    LedgerEntry,
    LevelBudget,
    QueryShare,
    chained_lines,
    compose_exactly,
    compositions_together,
    epsilon_cks,
    rounded_up,
    worst_epsilon,
)


def entry(
    run_id: str = "r1", total: Fraction = Fraction(1, 4), framework: Framework = Framework.PURE_DP
) -> LedgerEntry:
    levels = (
        LevelBudget(
            "State", Fraction(1, 3), (QueryShare("hhgq", Fraction(9, 40)), QueryShare("all", Fraction(31, 40)))
        ),
        LevelBudget("Block", Fraction(2, 3), (QueryShare("all", Fraction(1)),)),
    )
    return LedgerEntry(
        run_id, "2026-01-02T03:04:05+00:00", "e2e_1940", "person", Budget(framework, total, levels), False
    )


def unchained(*lines: LedgerEntry | AttemptLine) -> str:
    """A ledger as it was before lines were chained."""
    return "".join(json.dumps(line.as_record(), ensure_ascii=False) + "\n" for line in lines)


@given(
    st.lists(
        st.tuples(st.fractions(Fraction(1, 10**9), 10), st.sampled_from(list(Framework)), st.booleans(), st.text()),
        max_size=5,
    )
)
def test_a_ledger_survives_its_text(runs: list[tuple[Fraction, Framework, bool, str]]) -> None:
    ledger = Ledger(
        tuple(
            replace(entry(f"run {place} {name}", total, framework), insecure=insecure, completed_levels=("State",))
            for place, (total, framework, insecure, name) in enumerate(runs)
        )
    )
    text = "".join(each.to_json() + "\n" for each in ledger.entries)
    assert Ledger.from_json_lines(text) == ledger


def test_a_line_holds_every_share_as_an_exact_text() -> None:
    record = json.loads(entry().to_json())
    assert record["total"] == "1/4"
    assert record["levels"][0] == {
        "geolevel": "State",
        "share": "1/3",
        "queries": [{"query": "hhgq", "share": "9/40"}, {"query": "all", "share": "31/40"}],
    }


def test_the_record_of_an_entry_is_what_its_line_holds() -> None:
    one = entry().with_completed("State")
    assert one.as_record() == json.loads(one.to_json())
    assert LedgerEntry.of(one.as_record()) == LedgerEntry.from_json(one.to_json()) == one


def test_every_run_is_charged_with_its_whole_total() -> None:
    ledger = Ledger((entry("a"), entry("b", Fraction(1, 3)), entry("c", Fraction(1, 7), Framework.ZCDP)))
    total = ledger.composition()
    assert total.epsilon == Fraction(7, 12)
    assert total.rho == Fraction(1, 7)
    assert total.joint_rho == Fraction(1, 7) + Fraction(49, 288)


def test_runs_under_a_test_key_are_named_and_not_summed() -> None:
    ledger = Ledger((entry("a"), replace(entry("b"), insecure=True)))
    assert ledger.composition().epsilon == Fraction(1, 4)
    assert ledger.insecure_runs == ("b",)
    assert "without any protection: b" in ledger.describe(PUBLISHED_DELTA)


def test_what_was_released_grows_level_by_level() -> None:
    run = entry()
    assert run.released == 0
    run = run.with_completed("State")
    assert run.released == Fraction(1, 12)
    assert run.with_completed("State") == run
    run = run.with_completed("Block")
    assert run.completed_levels == ("State", "Block")
    assert run.released == run.total


def test_a_later_line_of_a_run_replaces_the_earlier_one() -> None:
    lines = [entry("a"), entry("b"), entry("a").with_completed("State")]
    ledger = Ledger.from_json_lines("".join(line.to_json() + "\n" for line in lines))
    assert [each.run_id for each in ledger.entries] == ["a", "b"]
    assert ledger.entries[0].completed_levels == ("State",)
    assert ledger.composition().epsilon == Fraction(1, 2)


@pytest.mark.parametrize(
    "later",
    [entry("a", Fraction(1, 8)), replace(entry("a"), insecure=True), entry("a"), entry("a").with_completed("Block")],
)
def test_a_run_cannot_change_its_budget_or_take_back_a_level(later: LedgerEntry) -> None:
    ledger = Ledger((entry("a").with_completed("State"),))
    with pytest.raises(PrivacyGuardError, match="stands in the privacy ledger"):
        ledger.with_line(later)


def test_a_run_stands_once() -> None:
    with pytest.raises(PrivacyGuardError, match="twice"):
        Ledger((entry("a"), entry("a")))


def test_a_level_without_a_budget_is_not_completed() -> None:
    with pytest.raises(PrivacyGuardError, match="'County'"):
        entry().with_completed("County")
    with pytest.raises(PrivacyGuardError, match="'County'"):
        replace(entry(), completed_levels=("County",))


@pytest.mark.parametrize(
    "bad",
    [
        "not json",
        "{}",
        "[]",
        entry().to_json().replace('"format": 2', '"format": 3'),
        entry().to_json().replace("9/40", "8/40"),
        entry().to_json().replace('"1/4"', "0.25"),
    ],
)
def test_a_damaged_line_is_refused_with_its_number(bad: str) -> None:
    with pytest.raises(PrivacyGuardError, match="line 2"):
        Ledger.from_json_lines(entry("first").to_json() + "\n" + bad + "\n")


def test_the_ledger_tells_both_statements_of_a_mixture() -> None:
    text = Ledger((entry("a"), entry("c", Fraction(1, 7), Framework.ZCDP))).describe(PUBLISHED_DELTA)
    assert "epsilons sum to 1/4" in text
    assert "rhos sum to 1/7" in text
    assert f"{Fraction(1, 7) + Fraction(1, 32)}-zCDP" in text
    composed = compose_exactly([entry("a").budget, entry("c", Fraction(1, 7), Framework.ZCDP).budget])
    assert composed is not None
    high = composed.epsilon(PUBLISHED_DELTA).high
    assert high < epsilon_cks(Fraction(1, 7) + Fraction(1, 32), PUBLISHED_DELTA)
    assert f"the share of their geolevel: epsilon {rounded_up(high, 5)} at most at delta 1e-10. This holds" in text
    assert "This holds where no budget was chosen" not in Ledger((entry("a", Fraction(1), Framework.ZCDP),)).describe(
        PUBLISHED_DELTA
    )


def test_an_entry_with_paths_is_read_again_and_composed_over_all_of_them() -> None:
    plain = entry("a", Fraction(3), Framework.ZCDP)
    usual = tuple(level.share for level in plain.budget.levels)
    alone = (Fraction(1), *[Fraction(0)] * (len(usual) - 1))
    own = replace(plain, paths=(usual, alone))
    assert LedgerEntry.from_json(own.to_json()) == own
    assert "paths" not in plain.public_record()
    assert LedgerEntry.from_json(plain.to_json()).paths == ()
    other = replace(entry("b", Fraction(1, 7), Framework.ZCDP), paths=(usual, alone))
    pairs = [(own.budget, own.paths), (other.budget, other.paths)]
    found = Ledger((own, other)).exact_epsilon(PUBLISHED_DELTA)
    assert found == worst_epsilon(compositions_together(pairs), PUBLISHED_DELTA)
    # Each way through both spines alone costs no more.
    for path, beside in itertools.product(own.paths, repeat=2):
        way = compositions_together([(own.budget, [path]), (other.budget, [beside])])
        assert worst_epsilon(way, PUBLISHED_DELTA).low <= found.high * (1 + 1e-12)
    assert "By exact composition of all answers, on the worst paths through the spines: epsilon" in Ledger(
        (own, other)
    ).describe(PUBLISHED_DELTA)
    many = tuple((Fraction(k, 200), Fraction(200 - k, 200)) for k in range(130))
    assert Ledger((replace(plain, paths=many),)).exact_epsilon(PUBLISHED_DELTA) is None
    for wrong in ((Fraction(1),) * len(usual), (Fraction(1),) * (len(usual) + 1)):
        with pytest.raises(PrivacyGuardError, match="do not divide the budget"):
            replace(plain, paths=(wrong,))


def test_paths_are_known_when_a_run_is_charged_and_stay() -> None:
    plain = entry("a", Fraction(3), Framework.ZCDP)
    usual = tuple(level.share for level in plain.budget.levels)
    begun = replace(plain, state=EntryState.INVARIANTS)
    charged = replace(plain, paths=(usual,))
    ledger = Ledger((begun,)).with_line(charged)
    assert ledger.entries == (charged,)
    with pytest.raises(PrivacyGuardError, match="another budget or state"):
        ledger.with_line(plain)


def test_the_exact_figure_counts_real_runs_that_are_charged() -> None:
    runs = (entry("a", Fraction(1, 7), Framework.ZCDP), replace(entry("b", Fraction(5), Framework.ZCDP), insecure=True))
    both = Ledger(runs).exact_epsilon(PUBLISHED_DELTA)
    assert both == Ledger(runs[:1]).exact_epsilon(PUBLISHED_DELTA)
    several = replace(runs[0], budget=replace(runs[0].budget, at_most=2))
    assert Ledger((several,)).exact_epsilon(PUBLISHED_DELTA) is None
    assert "exact composition" not in Ledger((several,)).describe(PUBLISHED_DELTA)


def test_empty_lines_say_nothing() -> None:
    assert Ledger.from_json_lines("\n" + entry("a").to_json() + "\n\n") == Ledger((entry("a"),))


def read(text: str, known: Ledger | None = None) -> object:
    """What is read of a text: entries, attempts and digests, or the refusal."""
    try:
        ledger = Ledger.from_json_lines(text, known)
    except PrivacyGuardError as error:
        return str(error)
    return ledger.entries, ledger.attempts, ledger.digests, ledger.sealed


@given(st.integers(0, 8), st.integers(0, 4), st.integers(0, 7), st.data())
def test_what_was_read_before_changes_no_reading(cut: int, earlier: int, odd: int, data: st.DataObject) -> None:
    runs = [replace(entry(f"r{number}"), state=EntryState.INVARIANTS) for number in range(3)]
    opened = [replace(attempt(), entry=run.run_id, state=DrawState.OPENED) for run in runs]
    lines = [*runs, *(entry(run.run_id) for run in runs), *opened][:8]
    old = unchained(*lines[:earlier])
    text = old + chained_lines(lines[earlier:], old.encode()).decode()
    whole = text.splitlines(keepends=True)
    known = Ledger.from_json_lines("".join(whole[:cut]).removesuffix(data.draw(st.sampled_from(["", "\n"]))))
    assert read(text, known) == read(text)
    changed = "".join([*whole[:odd], whole[odd].replace("r1", "r2"), *whole[odd + 1 :]])
    assert read(changed, known) == read(changed)
    assert read("".join(whole[:odd]), known) == read("".join(whole[:odd]))


def attempt(**change: object) -> AttemptLine:
    return replace(AttemptLine("r1", "State", 1, "f" * 32, DrawState.OPENED, "here"), **change)


def test_entries_and_attempts_survive_their_text() -> None:
    declared = DeclaredInvariants("State", True, False, ("the totals", "the units"))
    full = replace(
        entry(),
        dataset="census-2020",
        contents=("a" * 64, "b" * 64),
        invariants=declared,
        cap=Cap(rho=Fraction(5, 2)),
        cap_was=Cap(rho=Fraction(2)),
        acknowledged=("units from people",),
    )
    ledger = Ledger((full, replace(full, run_id="r2", state=EntryState.INVARIANTS)), (attempt(),))
    assert Ledger.from_json_lines(unchained(*ledger.entries, *ledger.attempts)) == ledger
    assert Ledger.from_json_lines(chained_lines([*ledger.entries, *ledger.attempts], b"").decode()) == ledger


def test_what_is_public_of_an_entry_says_nothing_of_the_files() -> None:
    full = replace(entry(), contents=("a" * 64,))
    public = full.public_record()
    assert "a" * 64 not in json.dumps(public)
    assert LedgerEntry.of(public) == replace(full, contents=())


def test_lines_of_the_first_format_are_read() -> None:
    record = entry().with_completed("State").as_record()
    for name in ("dataset", "contents", "state", "invariants", "cap", "cap_was", "acknowledged"):
        del record[name]
    line = json.dumps(record | {"format": 1})
    assert Ledger.from_json_lines(line).entries == (entry().with_completed("State"),)


def test_a_run_that_has_published_its_invariants_alone_costs_nothing_and_may_be_charged() -> None:
    only = replace(entry(), state=EntryState.INVARIANTS)
    with pytest.raises(PrivacyGuardError, match="completed without a budget"):
        replace(only, completed_levels=("State",))
    ledger = Ledger((only,))
    assert ledger.composition().epsilon == 0
    capped = replace(entry(), cap=Cap(rho=Fraction(1)))
    assert ledger.with_line(capped).composition().epsilon == Fraction(1, 4)
    with pytest.raises(PrivacyGuardError, match="another budget or state"):
        ledger.with_line(capped).with_line(only)
    with pytest.raises(PrivacyGuardError, match="another budget or state"):
        ledger.with_line(capped).with_line(replace(capped, cap=Cap(rho=Fraction(2))))


@pytest.mark.parametrize(
    ("states", "fits"),
    [
        (["opened", "staged"], True),
        (["opened", "destroyed"], True),
        (["destroyed"], True),
        (["opened", "staged", "destroyed"], True),
        (["opened", "opened"], True),
        (["staged"], False),
        (["opened", "destroyed", "staged"], False),
        (["opened", "destroyed", "opened"], False),
        (["opened", "staged", "opened"], False),
    ],
)
def test_an_attempt_goes_forward_only(states: list[str], fits: bool) -> None:
    lines = [entry("r1"), *(attempt(state=DrawState(state)) for state in states)]
    if fits:
        (found,) = Ledger.from_json_lines(unchained(*lines)).attempts_at("r1", "State")
        assert found.state.value == states[-1]
    else:
        with pytest.raises(PrivacyGuardError, match=f"line {len(lines)}: attempt 1 of run r1"):
            Ledger.from_json_lines(unchained(*lines))


@pytest.mark.parametrize("change", [{"instance": "e" * 32}, {"place": "elsewhere"}])
def test_an_attempt_of_one_number_is_one(change: dict[str, str]) -> None:
    ledger = Ledger((entry("r1"),), (attempt(),))
    with pytest.raises(PrivacyGuardError, match="as another one"):
        ledger.with_line(attempt(state=DrawState.STAGED, **change))


@pytest.mark.parametrize("bad", [{"state": "lost"}, {"number": "1"}, {"instance": 1}, {"entry": None}])
def test_an_attempt_that_cannot_be_read_is_refused(bad: dict[str, object]) -> None:
    line = json.dumps({**attempt().as_record(), **bad})
    with pytest.raises(PrivacyGuardError, match="line 2: not an attempt"):
        Ledger.from_json_lines(entry("r1").to_json() + "\n" + line)


def test_the_records_of_a_contributor_stand_in_the_ledger_where_there_are_several() -> None:
    one = entry("r1", Fraction(1, 2))
    several = replace(entry("r2", Fraction(3)), budget=replace(one.budget, total=Fraction(3), at_most=3), table="stay")
    assert "at_most" not in one.as_record()
    assert LedgerEntry.of(several.as_record()) == several
    ledger = Ledger((one, several))
    assert ledger.composition().epsilon == Fraction(9, 2)
    said = ledger.describe(PUBLISHED_DELTA)
    assert "epsilons sum to 9/2" in said
    assert "differ in all records of one contributor, at most 3 of each kind (person, stay), at the same time" in said
    assert "counted as what they cost for so many: r1." in said
    with pytest.raises(PrivacyGuardError, match="another budget"):
        ledger.with_line(replace(several, budget=replace(several.budget, at_most=2)))
    capped = replace(entry("r3", Fraction(1, 2)), cap=Cap(epsilon=Fraction(5)))
    with pytest.raises(PrivacyGuardError, match="spent so far 9/2"):
        ledger.require_budget(capped)  # for three records it costs 3/2
    Ledger((one,)).require_budget(capped)


def several_runs() -> list[LedgerEntry | AttemptLine]:
    """Lines of three runs, one under a test key, with attempts, as they are written."""
    lines: list[LedgerEntry | AttemptLine] = []
    for name, insecure in (("r1", False), ("r2", True), ("r3", False)):
        run = replace(entry(name), insecure=insecure, state=EntryState.INVARIANTS)
        charged = replace(run, state=EntryState.CHARGED, cap=Cap(epsilon=Fraction(2)))
        drawn = [attempt(entry=name, state=state) for state in (DrawState.OPENED, DrawState.STAGED)]
        lines += [run, charged, *drawn, charged.with_completed("State")]
    return lines


#: The same ledger: chained from the first line on, or from the seventh (in the midst of a run) or the last.
LEDGERS = {
    first: unchained(*several_runs()[:first]).encode()
    + chained_lines(several_runs()[first:], unchained(*several_runs()[:first]).encode())
    for first in (0, 6, 14)
}
chained_from = pytest.mark.parametrize("first", LEDGERS)


def refused(lines: list[bytes]) -> str:
    with pytest.raises(PrivacyGuardError, match="privacy ledger, line") as caught:
        Ledger.from_json_lines(b"".join(lines).decode())
    assert "restore it from its copy" in caught.value.hint
    return caught.value.message


@chained_from
def test_every_chained_line_has_the_digest_of_all_bytes_before_it(first: int) -> None:
    lines = LEDGERS[first].splitlines(keepends=True)
    assert len(lines) == len(several_runs())
    for place, line in enumerate(lines):
        before = hashlib.sha256(b"".join(lines[:place])).hexdigest()
        assert json.loads(line).get("sha256_before") == (before if place >= first else None)
    ledger = Ledger.from_json_lines(LEDGERS[first].decode())
    assert ledger == Ledger.from_json_lines(unchained(*several_runs()))
    assert ledger.digests == tuple(hashlib.sha256(b"".join(lines[: n + 1])).hexdigest() for n in range(len(lines)))


@chained_from
def test_a_line_that_was_deleted_is_missed_wherever_it_stood(first: int) -> None:
    lines = LEDGERS[first].splitlines(keepends=True)
    for place in range(len(lines) - 1):
        said = refused(lines[:place] + lines[place + 1 :])
        if place >= first - 1:  # else an attempt may be left without its run
            assert f"line {place + 1}: does not follow the lines above it" in said
    for head in range(1, len(lines)):
        refused(lines[head:])


@chained_from
def test_lines_that_were_moved_or_repeated_are_refused(first: int) -> None:
    lines = LEDGERS[first].splitlines(keepends=True)
    for one, other in itertools.combinations(range(len(lines)), 2):
        moved = list(lines)
        moved[one], moved[other] = moved[other], moved[one]
        refused(moved)
    for copied, place in itertools.product(range(first, len(lines)), range(len(lines) + 1)):
        refused([*lines[:place], lines[copied], *lines[place:]])


@chained_from
@given(st.data())
def test_a_byte_that_was_changed_is_noticed_in_all_lines_but_the_last(first: int, data: st.DataObject) -> None:
    content = LEDGERS[first]
    place = data.draw(st.integers(0, content.rindex(b"\n", 0, -1)))
    byte = data.draw(st.sampled_from([code for code in range(128) if code != content[place]]))
    refused([content[:place], bytes([byte]), content[place + 1 :]])


def test_no_line_without_a_digest_follows_one_that_has_it() -> None:
    content = LEDGERS[6]
    said = refused([content, unchained(entry("r4")).encode()])
    assert f"line {len(several_runs()) + 1}: has no sha256_before" in said
    lines = [json.loads(line) for line in content.splitlines()]
    for line in lines[6:]:
        stripped = [*lines[: lines.index(line)], {**line, "sha256_before": None}, *lines[lines.index(line) + 1 :]]
        refused([json.dumps(each, ensure_ascii=False).encode() + b"\n" for each in stripped])


@pytest.mark.parametrize("digest", ["0" * 64, "", 1, [], True])
def test_a_digest_of_anything_else_is_refused(digest: object) -> None:
    line = json.dumps({**entry("r1").as_record(), "sha256_before": digest})
    assert "line 1: does not follow the lines above it" in refused([line.encode()])


def test_empty_lines_are_hashed_like_all_others() -> None:
    lines = LEDGERS[6].splitlines(keepends=True)
    for place in range(len(lines)):
        refused([*lines[:place], b"\n", *lines[place:]])
    longer = LEDGERS[6] + b"\n \n"
    longer += chained_lines([entry("r4")], longer)
    assert Ledger.from_json_lines(longer.decode()).find("r4") == entry("r4")
    refused([longer.replace(b"\n \n", b"\n")])


def test_versions_that_know_no_chain_refuse_a_ledger_that_has_one() -> None:
    """They read entries of the formats 1 and 2, and would add lines without a digest."""
    formats = [json.loads(line).get("format") for line in LEDGERS[0].splitlines()]
    assert set(formats) == {3, None}, "attempts have no format"
    with pytest.raises(PrivacyGuardError, match="an entry of format 3"):
        LedgerEntry.from_json(LEDGERS[0].splitlines()[0].decode())


@pytest.mark.parametrize("name", ["r\u2028", "r\x85", "r\u2029 and more"])
def test_a_line_ends_at_its_newline_and_nowhere_else(name: str) -> None:
    assert Ledger.from_json_lines(unchained(entry(name))).entries == (entry(name),)
    assert Ledger.from_json_lines(chained_lines([entry(name)], b"").decode()).entries == (entry(name),)


def test_a_ledger_is_built_once_however_many_lines_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """One for each line would make reading quadratic: 7 s for a thousand runs."""
    built = []
    monkeypatch.setattr(Ledger, "__post_init__", lambda ledger: built.append(len(ledger.entries)))
    Ledger.from_json_lines(LEDGERS[6].decode())
    assert built == [3]


def test_news_are_the_lines_that_change_something() -> None:
    lines = several_runs()
    ledger = Ledger.from_json_lines(unchained(*lines[:5]))
    assert ledger.news_in([lines[4], lines[3], *lines[5:7], lines[6]]) == tuple(lines[5:7])
    with pytest.raises(PrivacyGuardError, match="another budget or state"):
        ledger.news_in([lines[5], lines[1]])
    with pytest.raises(PrivacyGuardError, match="does not stand in the privacy ledger"):
        ledger.news_in([attempt(entry="r9")])
