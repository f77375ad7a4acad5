"""Loops are compiled, and their machine code is kept where that can be."""

from das_spark import compiled as module


def test_a_loop_is_compiled_where_nothing_can_be_written(monkeypatch):
    original, asked = module.njit, []

    def without_a_place(**settings):
        asked.append(settings.get("cache", False))
        if asked[-1]:
            raise RuntimeError("no locator available")
        return original(**settings)

    monkeypatch.setattr(module, "njit", without_a_place)
    doubled = module.compiled(lambda number: 2 * number)
    assert doubled(21) == 42
    assert asked == [True, False]
