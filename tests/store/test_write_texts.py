"""Files of an evaluation: for their owner alone, and a folder that cannot be made is one clear error."""

import pytest

from das_spark.errors import OutputError
from das_spark.store import write_texts


def test_files_are_for_their_owner_alone_and_replaced_as_such(tmp_path):
    out = tmp_path / "new" / "accuracy"
    for text in ("old", "new"):
        assert write_texts(out, {"a.csv": text}, restricted=True) == ("a.csv",)
        (out / "a.csv").chmod(0o600 if text == "new" else 0o644)
    assert out.stat().st_mode & 0o777 == 0o700
    write_texts(out, {"a.csv": "newer"}, restricted=True)
    assert ((out / "a.csv").read_text(), (out / "a.csv").stat().st_mode & 0o777) == ("newer", 0o600)


def test_a_folder_that_cannot_be_made_is_an_error_of_the_output(tmp_path):
    (tmp_path / "letters.txt").write_text("mine")
    for folder in (tmp_path / "letters.txt", tmp_path / "letters.txt" / "accuracy"):
        with pytest.raises(OutputError, match="cannot be written"):
            write_texts(folder, {"a.csv": "text"}, restricted=True)
