"""Names of geounits from a CSV: what is wrong with it is said by name, and nothing else is changed."""

from __future__ import annotations

import pytest

from das_spark.errors import InputError
from das_spark.features.place_names.names import read_names

HEAD = "geolevel,geocode,name\n"
LEVELS = ("County", "Tract")


def written(folder, text):
    path = folder / "names.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_names_keep_every_sign_and_geocodes_their_zeros(tmp_path):
    text = f'{HEAD}County,01001,"Washington, ""the"" county"\nTract,0100100,Doña Ana\nBlock,1,not wanted\nTract,7,\n'
    assert read_names(written(tmp_path, text), LEVELS).to_pylist() == [
        {"geolevel": "County", "geocode": "01001", "name": 'Washington, "the" county'},
        {"geolevel": "Tract", "geocode": "0100100", "name": "Doña Ana"},
        {"geolevel": "Tract", "geocode": "7", "name": ""},
    ]


def test_one_code_may_have_names_at_several_levels(tmp_path):
    rows = read_names(written(tmp_path, f"{HEAD}County,1,a\nTract,1,b\n"), LEVELS)
    assert rows.column("name").to_pylist() == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{HEAD}County,1,a\nCounty,1,b\n", "County 1 stands twice"),
        (f"{HEAD}County,1,=1+1\n", "a spreadsheet would carry out '=1+1'"),
        (f"{HEAD}County,1,a\x07b\n", "expected no control characters; not so in record 1"),
        (f'{HEAD}County,1,"two\nlines"\n', "U+000A"),
        ("geocode,name\n1,a\n", "has columns geocode, name"),
        ("geolevel;geocode;name\nCounty;1;a\n", "its columns are delimited by semicolons"),
        (f"{HEAD}County,1\n", "expected as many fields as the header; not so in record 1"),
        (f"{HEAD}County,1,Do\xf1a\n".encode("latin-1"), "expected text in its encoding; not so in record 1"),
        ("", "is empty; its first line must hold the names"),
    ],
)
def test_what_is_wrong_is_said_with_the_file(tmp_path, text, said):
    path = written(tmp_path, text)
    with pytest.raises(InputError) as caught:
        read_names(path, LEVELS)
    assert said in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_file_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(InputError, match="no such file or folder"):
        read_names(tmp_path / "nothing.csv", LEVELS)
