"""Verification of a public root: what is not whole is not read."""

import json

import pytest
from made_runs import LEVELS, manifest

from das_spark.cli.main import main
from das_spark.pipeline.assess import verify_public
from das_spark.pipeline.verified_files import REPORT, TIMES
from das_spark.store import PublicLayout


def test_a_root_with_a_folder_that_is_not_whole_fails_without_being_read_and_says_which(tmp_path):
    layout = PublicLayout(tmp_path)
    manifest().save(layout.manifest)
    tables = ("geounits", "invariants", "bounds", "measurements", "estimates", "diagnostics")
    folders = [layout.level(table, level) for table in tables for level in LEVELS]
    folders += [layout.microdata(kind, "text") for kind in ("person", "unit")]
    for folder in folders:
        folder.mkdir(parents=True)
        (folder / "_SUCCESS").touch()
    (layout.level("estimates", "County") / "_SUCCESS").unlink()
    (layout.microdata("unit", "text") / "_SUCCESS").unlink()
    report = verify_public(None, layout)  # no session: nothing may be asked of it
    assert [(check.name, check.passed) for check in report.checks] == [
        ("folders are whole", False),
        ("files are those of the manifest", False),
        ("ledger equals configuration", True),
    ]
    assert report.checks[0].failing == ("estimates/County", "microdata/unit.text")
    assert report.checks[0].checked == len(folders)
    assert not json.loads(layout.verification.read_text(encoding="utf-8"))["passed"]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.verified
@pytest.mark.parametrize("form", [pytest.param("concatenate", marks=pytest.mark.long), "single"])
def test_a_run_with_joined_text_is_verified_in_its_form(workshop, capsys, form):
    arguments = ["run", str(workshop.run_file()), "--run-id", form, "--test-key", "x"]
    settings = ['output.microdata=["parquet","text"]', f"output.microdata_files={form}"]
    assert main([*arguments, *(each for setting in settings for each in ("--set", setting))]) == 0
    layout = workshop.layout(form)
    names = {"concatenate": "0_metadata", "single": "MDF_UNIT.txt"}
    head = layout.public.microdata("unit", "text") / names[form]
    head.write_text(head.read_text().replace("# Records: ", "# Records: 9"))
    capsys.readouterr()
    assert main(["verify", str(layout.folder), "--json"]) == 1
    checks = json.loads(capsys.readouterr().out)["checks"]
    failed = {check["name"]: check["failing"] for check in checks if not check["passed"]}
    assert failed.pop(TIMES) == [f"microdata/unit.text/{names[form]}"]
    assert "verification.json: passed" in failed.pop(REPORT)
    assert failed == {
        "files are those of the manifest": [f"microdata/unit.text/{names[form]}"],
        "texts follow from the manifest": [f"microdata/unit.text/{names[form]}"],
    }
