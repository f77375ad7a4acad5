"""What figures share: plots in rows, scales with plain numbers, SVG that is the same every time."""

from __future__ import annotations

from xml.etree import ElementTree

from das_spark.evaluation.drawing import as_svg, log_scales, name_rows, panels


def test_as_many_plots_as_asked_for_are_visible():
    figure, plots = panels(3)
    assert len(plots) == 3
    assert [axes.get_visible() for axes in figure.axes] == [True, True, True, False]


def test_rows_have_their_names_from_the_top():
    _, (axes,) = panels(1, columns=1)
    name_rows(axes, ["first", "second", "third"])
    assert [label.get_text() for label in axes.get_yticklabels()] == ["first", "second", "third"]
    low, high = axes.get_ylim()
    assert high < 0
    assert low > 2


def test_logarithmic_scales_have_plain_numbers():
    figure, (axes,) = panels(1, columns=1)
    axes.plot([1, 2000], [1, 30])
    log_scales(axes, both=True)
    text = as_svg(figure)
    ElementTree.fromstring(text)
    assert all(f">{number}<" in text for number in ("1", "2", "5", "10", "1,000"))


def test_a_figure_is_the_same_every_time():
    def drawn() -> str:
        figure, (axes, _) = panels(2)
        axes.plot([1, 2], [3, 4])
        return as_svg(figure)

    assert drawn() == drawn()
