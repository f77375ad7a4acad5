"""Verification of the texts of a run: the manifest, and what stands beside the tables, by its configuration."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Final

from das_spark.config import GEOUNITS_OF_UNITS, as_begun, config_hash, levels_together
from das_spark.io.definitions import in_words, without_zeros
from das_spark.pipeline.features import publications_of
from das_spark.pipeline.publish import counted_tables, stage_records
from das_spark.pipeline.statement import (
    dictionary_of,
    notices_of,
    public_rules_of,
    software_versions,
    solver_facts_of,
)
from das_spark.places import Place, seen_from
from das_spark.privacy import LedgerEntry
from das_spark.spark.checks import Check
from das_spark.store import RunMarker, strict_json
from das_spark.store.spine import read_record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from das_spark.config import RunPlan
    from das_spark.spark.verify_run import Verified


#: Texts beside the tables, and what the manifest says besides.
TEXTS: Final = "texts follow from the manifest"
_VERSION: Final = re.compile(r"\d[A-Za-z0-9.+-]{0,39}")


def text_check(run: Verified) -> Check:
    """What the manifest says follows from configuration and tables, and the texts beside tables from the manifest."""
    failing = [f"manifest.json: {name}" for name, right in _manifest_follows(run).items() if not right]
    texts = [publication.texts(run.manifest, run.layout) for publication in publications_of(run.plan)]
    whole = {path: text for each in texts for path, text in each.whole.items()}
    begun = {path: text for each in texts for path, text in each.begun.items()}
    wrong = [path for path, text in whole.items() if not _begins(path, text, whole=True)]
    wrong += [path for path, text in begun.items() if not _begins(path, text, whole=False)]
    failing += [seen_from(run.layout.path, path) for path in wrong]
    if not _marked(run):
        failing.append(run.layout.marker.name)
    rows = {
        name.removeprefix("microdata/"): n for name, n in run.manifest.rows.items() if name.startswith("microdata/")
    }
    held = run.plan.product.published
    if held is not None and not _names_published(run, held.product):
        failing.append(seen_from(run.layout.path, run.layout.published_source))
    if _json(run.layout.microdata_rows) != rows:
        failing.append(seen_from(run.layout.path, run.layout.microdata_rows))
    if not run.spine.is_census:
        failing += [f"spine/spine.json: {name}" for name in _odd_spine(run)]
    return Check.of((TEXTS, "", ""), len(whole) + len(begun) + 1, failing)


def _manifest_follows(run: Verified) -> dict[str, bool]:
    manifest, plan = run.manifest, run.plan
    facts = solver_facts_of(run.layout, run.spine.names)
    described = dictionary_of(plan)
    return {
        "product": manifest.product == plan.product.name,
        "config_hash": manifest.config_hash == config_hash(manifest.config),
        "public_rules": _without_input(manifest.public_rules) == _without_input(public_rules_of(plan)),
        "notices": manifest.notices == notices_of(plan, insecure=LedgerEntry.of(manifest.ledger).insecure),
        "estimation": manifest.estimation == levels_together(plan),
        "published": bool(manifest.published) == (plan.product.published is not None),
        "versions": _known_versions(manifest.versions),
        "stages": manifest.stages == stage_records(plan),
        "rows": set(manifest.rows) == set(row_names(plan)),
        "ledger": manifest.ledger.keys() <= LedgerEntry.of(manifest.ledger).public_record().keys(),
        "files": len({file.name for file in manifest.files}) == len(manifest.files),
        **{name: getattr(manifest, name) == value for name, value in facts.items()},
        "data_dictionary": json.dumps(list(manifest.data_dictionary))
        in (json.dumps(each) for each in (list(described), without_zeros(described), in_words(described))),
    }


def _known_versions(versions: Mapping[str, object]) -> bool:
    """Whether versions are of the form in which a run writes them, and of the software that it names."""
    ours = software_versions()
    same = versions.get("das_spark") == ours["das_spark"]
    named = versions.keys() == ours.keys() if same else {"das_spark", "python"} <= versions.keys()
    return named and all(isinstance(version, str) and _VERSION.fullmatch(version) for version in versions.values())


def row_names(plan: RunPlan) -> list[str]:
    """Return the names under which the manifest of a run counts rows."""
    return [
        *(f"{table}/{level}" for table, level in counted_tables(plan)),
        *(name for publication in publications_of(plan) for name in publication.counted),
    ]


def _without_input(rules: tuple[str, ...]) -> tuple[str, ...]:
    """All rules but the one that the files of the input decide about, which are not here."""
    return tuple(rule for rule in rules if rule != GEOUNITS_OF_UNITS)


def _begins(path: Place, text: str, *, whole: bool) -> bool:
    """Whether a file begins with a text, and, where that is the whole of it, ends with it."""
    if not path.is_file():
        return False
    expected = text.encode()
    with path.open("rb") as file:
        return file.read(len(expected)) == expected and not (whole and file.read(1))


def _marked(run: Verified) -> bool:
    """Whether the marker of the public root is of this run, and says nothing else."""
    manifest = run.manifest
    found = RunMarker.find(run.layout.path)
    expected = RunMarker(manifest.run_id, manifest.config_hash, created=manifest.created, config=manifest.config)
    if found is None or strict_json(run.layout.marker.read_text(encoding="utf-8")) != strict_json(found.to_json()):
        return False
    began = as_begun(found.config or expected.config)
    return replace(found, config=began) == replace(expected, config=as_begun(expected.config))


def _odd_spine(run: Verified) -> list[str]:
    """What the record of a spine says otherwise than configuration and tables."""
    record = read_record(run.layout.spine)
    rows, names = run.manifest.rows, run.spine.names
    sizes = [rows.get(f"geounits/{name}", 0) for name in names]
    right = {
        "settings": asdict(record.settings) == asdict(run.plan.geography.spine),
        "framework": record.framework == str(run.plan.budget.framework),
        "geounits": [level.geounits for level in record.levels] == sizes,
        "children": [level.children for level in record.levels] == [*sizes[1:], 0],
        "share": {level.name: level.share for level in record.levels}
        == {level.geolevel: level.share for level in run.plan.budget.levels},
    }
    return [name for name, good in right.items() if not good]


def _names_published(run: Verified, product: str) -> bool:
    """Whether manifest and record agree on the run whose published counts are held, and on its product."""
    said = dict(run.manifest.published)
    return said.get("product") == product and _json(run.layout.published_source) == said


def _json(path: Place) -> Any:  # noqa: ANN401 - whatever it holds
    try:
        return strict_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
