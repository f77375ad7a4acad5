"""Finished runs as evaluation reads them: estimates, and the confidential histograms beside them. RESTRICTED."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F

from das_spark.config import differing_settings, plan_from_config
from das_spark.errors import InputError, OutputError
from das_spark.places import Place
from das_spark.privacy import LedgerEntry
from das_spark.products import Product
from das_spark.spark.census import census_histograms
from das_spark.spark.compare import same_histograms
from das_spark.spark.session import require_safe_session
from das_spark.spark.tables import read_table
from das_spark.store import PublicLayout, PublicManifest, RestrictedLayout, find_run, finished, open_public
from das_spark.store.tables import published_estimates

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from das_spark.config import RunPlan
    from das_spark.geography import Spine
    from das_spark.products import Product
    from das_spark.store import RestrictedLayout


class Pair(NamedTuple):
    """Both histograms of a geolevel: columns geocode, cells and counts."""

    geolevel: str  # its name
    truth: DataFrame  # Confidential
    estimate: DataFrame  # Protected


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """The public side of a finished run."""

    folder: Place  # as the user named it
    public: PublicLayout  # its public folder
    manifest: PublicManifest  # its public manifest
    plan: RunPlan  # what it did

    @classmethod
    def at(cls, folder: Place) -> FinishedRun:
        """Open a run."""
        public = open_public(folder)
        manifest = PublicManifest.load(public.manifest)
        return cls(folder, public, manifest, plan_from_config(manifest.config, source=str(public.manifest)))

    @property
    def product(self) -> Product:
        """What it published."""
        return self.plan.product

    @property
    def spine(self) -> Spine:
        """Its geolevels."""
        return self.plan.spine

    @property
    def census(self) -> Spine:
        """The geounits of the census that the run tells of."""
        return self.product.census(self.spine)

    @property
    def is_insecure(self) -> bool:
        """Whether it was made under a test key."""
        return LedgerEntry.of(self.manifest.ledger).insecure

    def measured(self) -> list[str]:
        """Every query that the run measured, with repetitions."""
        return [item.query for level in self.plan.budget.levels for item in level.queries]

    def estimates(self, spark: SparkSession, geolevel: str) -> DataFrame:
        """Protected histograms of a geolevel of the census."""
        folder = self.public.level(published_estimates(self.spine), geolevel)
        if not finished(folder):
            raise OutputError(f"{folder}: there are no estimates of {geolevel}", hint="finish the run first")
        return read_table(spark, "histograms", folder)


def truths(
    spark: SparkSession, restricted: RestrictedLayout, product: Product, spine: Spine
) -> list[tuple[str, DataFrame]]:
    """Confidential histograms of every geolevel of the census, root first. RESTRICTED."""
    census = product.census(spine)
    folders = _histogram_folders(restricted, spine)
    if census is spine:
        return [(name, read_table(spark, "histograms", folder)) for name, folder in folders.items()]
    whole = census_histograms(read_table(spark, "histograms", folders[spine.leaf.name]), census)
    return [(name, whole.where(F.col("level") == name).drop("level")) for name in census.names]


def _histogram_folders(restricted: RestrictedLayout, spine: Spine) -> dict[str, Place]:
    """The folders of confidential histograms by geolevel, all of them there."""
    folders = {name: restricted.level("histograms", name) for name in spine.names}
    if gone := [name for name, folder in folders.items() if not finished(folder)]:
        raise OutputError(
            f"{restricted.path}: the confidential histograms of {gone[0]} are not there",
            hint="name a run on the same input that still has them: --truth RUN",
        )
    return folders


def require_truths(runs: Sequence[FinishedRun], other: Place | None = None) -> None:
    """Look for the confidential histograms that runs are compared with, before Spark is started for nothing."""
    for run in runs:
        holder = _holder(run, other)
        _histogram_folders(find_run(holder.folder).restricted, holder.spine)


def truth_of(spark: SparkSession, run: FinishedRun, other: Place | None = None) -> list[tuple[str, DataFrame]]:
    """Confidential histograms that a run is compared with. RESTRICTED."""
    holder = _holder(run, other)
    # A test key makes noise worthless; the counts are confidential still, unless nobody was counted.
    require_safe_session(spark, insecure=False, synthetic=holder.plan.input.is_simulated)
    return truths(spark, find_run(holder.folder).restricted, holder.product, holder.spine)


def spine_truths(spark: SparkSession, run: FinishedRun, other: Place | None = None) -> list[tuple[str, DataFrame]]:
    """Confidential histograms of every geolevel of the spine that a run measured, root first. RESTRICTED."""
    holder = _holder(run, other)
    if holder.spine != run.spine:
        raise InputError(
            f"{holder.folder} has another spine than {run.folder}, whose measurements are of its own geounits",
            hint="--truth names a run with the same [geography]",
        )
    require_safe_session(spark, insecure=False, synthetic=holder.plan.input.is_simulated)
    folders = _histogram_folders(find_run(holder.folder).restricted, holder.spine)
    return [(name, read_table(spark, "histograms", folder)) for name, folder in folders.items()]


def _holder(run: FinishedRun, other: Place | None) -> FinishedRun:
    """The run whose confidential histograms another one is compared with."""
    holder = run if other is None else FinishedRun.at(other)
    check_same_shape(run, holder, "--truth names a run of a product with the same schema, and the same geolevels")
    return holder


def check_same_shape(one: FinishedRun, other: FinishedRun, hint: str) -> None:
    """Refuse runs whose histograms cannot be set side by side."""
    if one.product.schema != other.product.schema:
        what = f"{other.folder} is a run of {other.product.name}, and {one.folder} of {one.product.name}"
        raise InputError(f"{what}: their schemas differ", hint=hint)
    if one.census.names != other.census.names:
        levels = [", ".join(each.census.names) for each in (other, one)]
        raise InputError(f"{other.folder} has the geolevels {levels[0]}; {one.folder} has {levels[1]}", hint=hint)


def check_same_geounits(run: FinishedRun, other: Place, levels: Sequence[Pair]) -> None:
    """Refuse a truth of other geography."""
    leaf = levels[-1]
    for one, another, where in (
        (leaf.truth, leaf.estimate, f"in {other} only"),
        (leaf.estimate, leaf.truth, f"in {run.folder} only"),
    ):
        alone = one.select("geocode").join(another.select("geocode"), "geocode", "left_anti")
        if (number := alone.count()) > 0:
            first = alone.agg(F.min("geocode")).collect()[0][0]
            raise InputError(
                f"truth of other geography: {number:,} geounits of {leaf.geolevel} are {where}, such as {first}",
                hint="--truth names a run on the same geounits",
            )


def alike_runs(folders: Sequence[Place]) -> list[FinishedRun]:
    """Open runs that can be pooled: those that were made in the same way."""
    runs = [FinishedRun.at(folder) for folder in folders]
    first = runs[0]
    for run in runs[1:]:
        differing = differing_settings(first.plan, run.plan)
        if differing:
            key, (one, other) = next(iter(differing.items()))
            more = f", and {len(differing) - 1} more" if len(differing) > 1 else ""
            raise InputError(
                f"{first.folder} and {run.folder} cannot be pooled: {key} is {one} and {other}{more}",
                hint="evaluate them apart, or set them side by side with --compare",
            )
    return runs


def require_one_truth(leaves: Mapping[Place, DataFrame], why: str = "", *, hint: str) -> None:
    """Refuse runs of different confidential histograms. RESTRICTED."""
    (first, own), *others = leaves.items()
    for folder, theirs in others:
        if not same_histograms(own, theirs):
            raise InputError(f"{first} and {folder} have different confidential histograms{why}", hint=hint)
