"""Lines of text files, against plain Python."""

import re
from itertools import groupby

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from das_spark.io.lines import LineComposer, LineRuns

TEXTS = ("", "06", "MPD|1.1.0", "x", "é")


def as_bytes(text):
    return np.frombuffer(text.encode(), dtype=np.uint8)


@st.composite
def runs_of_records(draw):
    """Fields, lengths and two numbers, in runs whose numbers stand still, count up or jump."""
    fields = draw(st.permutations([-1, -2, 0, 1]))
    number = st.integers(0, 2**63 - 1) | st.integers(0, 1200) | st.sampled_from([8, 9, 98, 99, 999_999, 2**63 - 4])
    runs = []
    for _ in range(draw(st.integers(0, 5))):
        chosen = [draw(st.integers(0, len(TEXTS) - 1)) if field >= 0 else field for field in fields]
        length = draw(st.integers(0, 25))
        columns = []
        for _ in range(2):
            start, step = draw(number), draw(st.sampled_from([0, 1, 1, 2]))
            most = (2**63 - 1 - start) // max(length, 1)
            columns.append(start + min(step, most) * np.arange(length, dtype=np.int64))
        runs.append((chosen, length, np.stack(columns)))
    return runs


def composed_by_hand(runs):
    rows = [
        [str(columns[-1 - field, row]) if field < 0 else TEXTS[field] for field in chosen]
        for chosen, length, columns in runs
        for row in range(length)
    ]
    return "".join("|".join(row) + "\n" for row in rows)


@given(st.lists(runs_of_records(), min_size=1, max_size=3))
def test_lines_are_those_of_plain_python_however_the_numbers_go_on(blocks):
    composer = LineComposer("|")  # its memory is used again
    for runs in blocks:
        fields = np.array([chosen for chosen, _, _ in runs], dtype=np.int64).reshape(len(runs), 4)
        lengths = np.array([length for _, length, _ in runs], dtype=np.int64)
        numbers = np.concatenate([np.zeros((2, 0), dtype=np.int64), *(columns for _, _, columns in runs)], axis=1)
        assert bytes(composer.lines(TEXTS, fields, lengths, list(numbers))).decode() == composed_by_hand(runs)


def test_lines_without_numbers_are_repeated():
    fields = np.array([[1, 0, 4], [3, 3, 3]])
    composed = LineComposer(",").lines(TEXTS, fields, np.array([3, 1]), [])
    assert bytes(composed).decode() == "06,,é\n" * 3 + "x,x,x\n"


#: Lines as they are, and as they must not be: other texts, numbers that are none, fields that are missing.
LINES = st.builds(
    lambda *parts: "|".join(parts),
    st.sampled_from(["06", "07"]),
    st.integers(95, 103).map(str) | st.sampled_from(["", "-3", "007", "1x", "9" * 18, "9" * 19]),
    st.sampled_from(["a", "b", "ab"]),
    st.integers(0, 3).map(str),
) | st.sampled_from(["", "06", "06|97|a|1|z", "06|97|a", "|||", "06|97|a|1\r"])


@given(st.lists(LINES, max_size=40), st.booleans())
@example(["06|97|a|1", "06|97|a|1\r"], False)
def test_every_line_is_the_first_of_its_run_but_for_digits(texts, ended):
    data = "\n".join(texts) + ("\n" if ended and texts else "")
    every = data.split("\n")[:-1] if data.endswith("\n") else data.split("\n") * bool(data)
    found = LineRuns.of(as_bytes(data), "|", [1, 3], 1)
    assert found is not None
    firsts = bytes(found.firsts).decode().split("\n")[:-1]
    assert len(firsts) == len(found.lengths)
    assert found.lengths.sum() == found.numbers.shape[1] == len(every)
    begin = 0
    for first, length in zip(firsts, found.lengths, strict=True):
        assert every[begin] == first
        for row in range(begin + 1, begin + length):
            own, other = every[row].split("|"), first.split("|")
            assert [len(field) for field in own] == [len(field) for field in other]
            assert (own[0], own[2], own[4:]) == (other[0], other[2], other[4:])
            assert found.numbers[:, row].tolist() == [int(own[1]), int(own[3])]
        begin += length


@given(st.lists(LINES.filter(re.compile(r"0[67][|][0-9]{1,18}[|][ab]+[|][0-9]").fullmatch), max_size=40))
def test_runs_are_as_long_as_they_can_be(texts):
    def shape(text):
        return re.sub("[0-9]", "0", text[2:]), text[:2]

    found = LineRuns.of(as_bytes("".join(f"{text}\n" for text in texts)), "|", [1, 3], 4)
    assert found.lengths.tolist() == [len(list(group)) for _, group in groupby(texts, key=shape)]


def test_lines_that_are_shorter_than_their_fields_are_left_to_another_reader():
    assert LineRuns.of(as_bytes("\n" * 100), "|", [1], 14) is None
