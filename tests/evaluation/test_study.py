"""A study: its figures, which sample is closest, and how shares are named."""

from made_study import SHARES, made_study

from das_spark.evaluation import accuracy_page
from das_spark.evaluation.privacy_loss import AS_CODED, empirical_privacy_loss


def test_the_release_of_a_line_has_the_loss_of_its_own_residuals():
    study = made_study(samples=True)
    assert {line.place for line in study.closest} == {"County"}
    for line in study.closest:
        entry = study.report.entry(line.place, line.measure)
        loss = empirical_privacy_loss(entry.frequencies.values, entry.frequencies.counts, AS_CODED).value
        assert line.release == (entry.figures.median_absolute, loss)
        assert [point.share for point in line.samples] == list(SHARES)


def test_small_shares_have_their_names_in_figure_2_and_in_the_table():
    study = made_study(samples=True)
    figures = list(study.drawn())
    assert len(figures) == 3
    (second,) = [one.svg for one in figures if "Circles, joined" in one.caption]
    assert all(f">{label}<" in second for label in ("0.4 %", "2.5 %", "50 %"))
    page = accuracy_page(study.report, (), study)
    assert "needs --samples" not in page
    assert "<td>50 %</td>" in page


def test_without_samples_the_page_says_why_there_is_no_figure_2():
    study = made_study()
    assert len(list(study.drawn())) == 2
    assert "needs --samples" in accuracy_page(study.report, (), study)


def test_samples_that_are_not_as_many_as_the_runs_are_noted():
    assert made_study(1, samples=True).report.notes == ()
    assert made_study(2).report.notes == ()
    (note,) = made_study(2, samples=True).report.notes
    assert note.startswith("samples of every share: 1, runs beside them: 2;")
