"""What is said of a run in public: notices, rules, statement and manifest, from its plan and its ledger entry."""

from __future__ import annotations

import json
import platform
from importlib import metadata
from typing import TYPE_CHECKING, Any, Final

from das_spark import __version__
from das_spark.config import (
    BANNERS_OF_STORES,
    COUNTED_ELSEWHERE,
    PUBLISHED_ELSEWHERE,
    geounit_sentences,
    held_sentence,
    holding_losses,
    levels_together,
    needs_of,
    neighbors_of,
    notice_of_people,
    plan_to_config,
    published_from_people,
    rules_from_people,
)
from das_spark.io.definitions import definitions
from das_spark.io.diagnostics_files import solver_facts
from das_spark.io.dictionary import data_dictionary
from das_spark.pipeline.features import publications_of
from das_spark.places import place_of
from das_spark.privacy import LedgerEntry, StatementFacts, invariants_of, privacy_statement
from das_spark.products import notice_of_contradictions
from das_spark.report import code, escaped
from das_spark.store import PublicManifest
from das_spark.store.tables import OF_OPTIMIZED_SPINES, of_estimator, of_published

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from das_spark.config import MeasurementOrigin, RunPlan
    from das_spark.evaluation import SharePath
    from das_spark.products import Records
    from das_spark.store import PublicLayout

#: What every public file of a run under a test key says.
INSECURE: Final = "INSECURE: made under a test key; nothing protects these outputs; for tests only"
_SOFTWARE = ("pyspark", "numpy", "scipy", "osqp", "piqp", "clarabel", "numba", "pyarrow", "cryptography")
#: Most right-hand sides of an added constraint that the statement spells out.
_SPELLED = 16


def notices_of(plan: RunPlan, *, insecure: bool) -> tuple[str, ...]:
    """Sentences that every public file of a run must carry."""
    found = [INSECURE] if insecure else []
    found += notice_of_people(published_from_people(plan.acknowledged, plan.spine.leaf.name))
    if PUBLISHED_ELSEWHERE in plan.acknowledged:
        found.append(COUNTED_ELSEWHERE)
    found += [banner for name, banner in BANNERS_OF_STORES.items() if name in plan.acknowledged]
    if plan.estimation.failsafe:
        found.append("Consistency with the parent may be relaxed in families that the manifest names")
    if plan.estimation.accept_uncertified:
        found.append("Estimates of families that the manifest names may not be proved to be the best")
    return (*found, *notice_of_contradictions(plan.product.name))


def declared_invariants(plan: RunPlan) -> tuple[str, ...]:
    """The declared invariants of a run, each a sentence."""
    in_parts = plan.spine.total_key_at(plan.invariants.total_at) is not None
    return plan.invariants.describe(
        plan.product.unit_classes, plan.spine.leaf.name, plan.product.counted_in_totals, in_parts=in_parts
    )


def planned_manifest(plan: RunPlan, entry: LedgerEntry, *, run_id: str, created: str, insecure: bool) -> PublicManifest:
    """What the public manifest says of a run that follows from its plan alone."""
    return PublicManifest(
        run_id=run_id,
        created=created,
        product=plan.product.name,
        config=plan_to_config(plan),
        config_hash=plan.config_hash,
        versions=software_versions(),
        ledger=entry.public_record(),
        invariants=declared_invariants(plan),
        public_rules=public_rules_of(plan),
        estimation=levels_together(plan),
        notices=notices_of(plan, insecure=insecure),
        data_dictionary=dictionary_of(plan),
    )


def dictionary_of(plan: RunPlan) -> tuple[Mapping[str, Any], ...]:
    """What a row and a column of every output of a run is."""
    publications = publications_of(plan)
    described = data_dictionary(
        plan.product,
        added=(
            *of_published(held=plan.product.published is not None, levels=plan.spine.names),
            *of_estimator(needs_of(plan), plan.spine.names),
            *(() if plan.spine.is_census else OF_OPTIMIZED_SPINES),
            *(table for publication in publications for table in publication.declared()),
        ),
        described=[entry for publication in publications for entry in publication.described()],
    )
    census, schema = plan.product.census(plan.spine), plan.product.schema
    return (*described, *definitions(census, schema, plan.queries, plan.bound_queries, plan.product.structural_zeros))


def software_versions() -> dict[str, str]:
    """Versions of what computed the run."""
    versions = {name: metadata.version(name) for name in _SOFTWARE}
    return {"das_spark": __version__, "python": platform.python_version(), **versions}


def public_rules_of(plan: RunPlan) -> tuple[str, ...]:
    """What a run treats as public, as sentences."""
    zeros = [f"Structural zero {zero.name}: {zero.meaning}" for zero in plan.product.structural_zeros]
    bounds = plan.product.unit_bounds
    capacity = [
        f"Units of class '{label}' hold between {least} and {most} {plan.product.counted} each."
        for label, least, most in (
            zip(plan.product.unit_classes, bounds.least, bounds.most, strict=False) if bounds else ()
        )
    ]
    geounits = geounit_sentences(plan.input)
    added = [
        f"Added constraint {each.name} at {each.geolevel}: {each.query} {each.sense} {_constants(each.right)}."
        for each in plan.added
    ]
    held = held_sentence(plan.product)
    if plan.geography.parents is not None:
        geounits = (*geounits, f"Which geounit lies in which: table {place_of(plan.geography.parents).name}.")
    return (*zeros, *(capacity if plan.invariants.units else []), *geounits, *added, *([held] if held else []))


def _constants(right: tuple[int, ...]) -> str:
    """Right-hand sides; a long list stands in the manifest alone."""
    if len(right) > _SPELLED:
        return f"{len(right)} constants, in the manifest"
    return ", ".join(f"{value:,}" for value in right) if len(right) == 1 else f"({', '.join(map(str, right))})"


def statement_of(manifest: PublicManifest, plan: RunPlan, paths: Sequence[SharePath] = ()) -> str:
    """The privacy statement that follows from a manifest: whoever has the public root can make it again."""
    entry, held_to = LedgerEntry.of(manifest.ledger), releases_held_to(manifest)
    relation = neighbors_of(plan, held_to)
    attributes, within = holding_losses(plan, tuple(path.shares for path in paths), relation)
    facts = StatementFacts(
        title=plan.product.title,
        run_id=manifest.run_id,
        budget=plan.budget,
        invariants=(*manifest.invariants, *rules_from_people(plan.acknowledged), *invariants_of(held_to)),
        public_rules=manifest.public_rules,
        attributes=attributes,
        within=within,
        from_people=published_from_people(plan.acknowledged, plan.spine.leaf.name),
        paths={tuple(map(str, path.shares)): path.blocks for path in paths},
        insecure=entry.insecure,
        unit=plan.product.record,
        noun=plan.product.records.singular,
        contributor=plan.product.records.contributed_by,
        bound=_bound_sentence(plan.product.records),
        relation=relation,
        attribute_names=tuple(attribute.name for attribute in plan.product.schema.attributes),
        releases=(entry, *held_to) if held_to else (),
        all_runs=manifest.all_runs,
        notices=manifest.notices,
        origin="" if plan.origin is None else _origin_sentence(plan.origin, entry),
        published=_published_sentence(plan, manifest.published) if manifest.published else "",
        estimation=manifest.estimation,
        external_noise=plan.origin is not None and plan.origin.is_external,
    )
    return privacy_statement(facts)


def releases_held_to(manifest: PublicManifest) -> tuple[LedgerEntry, ...]:
    """Return the entries of the releases whose published counts the estimates of a run are held to."""
    return tuple(LedgerEntry.of(record) for record in manifest.published.get("releases", ()))


def _bound_sentence(records: Records) -> str:
    """Who sees to it that a contributor has no more records than are protected; empty where nothing is declared."""
    who, most = records.contributed_by, records.at_most
    if records.contributor and records.over == "drop":
        return (
            f"Of a {who} with more than {most}, {most} were counted, chosen by what all records of the {who} hold and"
            " by nothing else; the others were left out. How many is confidential."
        )
    if records.contributor:
        return f"No {who} has more: the input would have been refused. What identifies a {who} was not kept."
    if most > 1:
        return (
            f"That no {who} has more is a property of the input which its office declares; nothing has checked it. What"
            f" could be told of a {who} with n records, more than {most}, would be n / {most} times the epsilon of the"
            " claim, or the square of that times its rho."
        )
    return ""


def _published_sentence(plan: RunPlan, published: Mapping[str, Any]) -> str:
    """Which run has published the counts that the estimates are held to, and what protects them."""
    held = plan.product.published
    query = "" if held is None else f" ({held.undivided or held.query})"
    divided = (
        f" In each {plan.spine.leaf.name} they are divided among the classes of which it has units, which are exact."
        if held is not None and held.undivided and plan.invariants.units
        else ""
    )
    where = (
        "The ledger of this dataset does not have that release: its cost is as its own manifest states it, and no cap"
        " of this dataset includes it."
        if PUBLISHED_ELSEWHERE in plan.acknowledged
        else "It stands in the ledger of the same dataset."
    )
    return (
        f"Every estimate of this run, of every geounit, has exactly the counts{query} that run"
        f" {code(published['run_id'])} of {escaped(published['created'])} has published of product"
        f" {code(published['product'])}. These are public estimates of that run.{divided} The claim above"
        f" counts what that run spent, and what it publishes exactly is exact here, too. {where} SHA-256 of the"
        f" manifest of that run: {escaped(published['manifest'])}."
    )


def _origin_sentence(origin: MeasurementOrigin, entry: LedgerEntry) -> str:
    """Where measurements come from that were there before, and who spent the budget."""
    nothing = "This run was given no confidential record and no key; it drew nothing and spent nothing."
    checksum = f"Checksum of what was read: {escaped(origin.sha256)}."
    if origin.is_external:
        return (
            f"The noisy measurements were published by others (dataset {code(origin.run_id)}). {nothing} The budget"
            f" below is the one that the run file states; it agrees with the variances of the files. {checksum}"
        )
    return (
        f"The noisy measurements were made before, by run {code(origin.run_id)} of {escaped(origin.created)} (ledger"
        f" entry {code(entry.run_id)}), which spent the budget below, once. {nothing} {checksum}"
    )


def ledger_text(manifest: PublicManifest) -> str:
    """The text of the public privacy ledger that follows from a manifest."""
    return json.dumps(manifest.ledger, indent=1) + "\n"


def solver_facts_of(public: PublicLayout, levels: Sequence[str]) -> dict[str, Any]:
    """What the manifest says of the families of a run, by its fields: statuses, residuals, relaxed and uncertified."""
    found = {name: solver_facts(public.level("diagnostics", name)) for name in levels}
    return {
        "solver_status": {name: each.status for name, each in found.items()},
        "worst_residuals": {name: each.worst for name, each in found.items()},
        "relaxed": tuple(sorted(f"{name}/{family}" for name, each in found.items() for family in each.relaxed)),
        "uncertified": tuple(sorted(f"{name}/{family}" for name, each in found.items() for family in each.uncertified)),
    }
