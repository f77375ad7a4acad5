"""What the rest of a run knows of microdata."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from das_spark.config import StageKind
from das_spark.features.microdata.room import room_of_microdata
from das_spark.features.microdata.rules import rules_of
from das_spark.features.microdata.trials import rehearse_microdata
from das_spark.features.microdata.work import publish_microdata
from das_spark.io.dictionary import microdata_dictionary
from das_spark.io.microdata_files import files_of
from das_spark.io.microdata_formats import SINGLE, WRITERS, heads_of
from das_spark.pipeline.features import Judged, OutputTable, Publication, Texts
from das_spark.pipeline.trials import Trial, product_fix
from das_spark.places import Place
from das_spark.store import strict_json

if TYPE_CHECKING:
    from das_spark.pipeline.context import RunContext
    from das_spark.pipeline.features import FeatureRoom
    from das_spark.pipeline.space import KnownSizes
    from das_spark.pipeline.trials import Ahead
    from das_spark.spark.verify import RunTables
    from das_spark.spark.verify_run import Verified
    from das_spark.store import PublicLayout, PublicManifest

_MICRODATA: Final = "microdata"


class Microdata(Publication):
    """Records of what is counted and, where people are assigned to units, of the units."""

    @property
    def name(self) -> str:
        """Of the stage."""
        return StageKind.MICRODATA

    def trials(self, ahead: Ahead) -> Iterator[Trial]:
        """Try synthetic records in every format and the form of the run."""
        plan = ahead.plan
        fix = f"{product_fix(plan)}, or leave the format out of output.microdata"
        for format in plan.output.microdata:
            folder = ahead.scratch / f"microdata.{format}"
            setting = f"output.microdata = {format!r} ({plan.output.microdata_files}), product {plan.product.name!r}"
            yield Trial(setting, partial(rehearse_microdata, plan, format, folder), fix)

    def room(self, known: KnownSizes) -> FeatureRoom:
        """Estimate the files of all formats."""
        return room_of_microdata(self.plan, known)

    def publish(self, context: RunContext) -> None:
        """Write the records, unless all files are finished."""
        publish_microdata(context)

    def outputs(self) -> tuple[OutputTable, ...]:
        """Declare a folder for each kind of records and format; their columns are judged record by record."""
        return tuple(OutputTable(f"{_MICRODATA}/{name}", None, format=format) for name, format in self._files())

    @property
    def recorded(self) -> tuple[str, ...]:
        """The folder of all."""
        return (_MICRODATA,)

    @property
    def counted(self) -> tuple[str, ...]:
        """One name for each kind of records and format."""
        return tuple(f"{_MICRODATA}/{name}" for name, _ in self._files())

    def rows(self, public: PublicLayout) -> dict[str, int]:
        """Return the numbers of records that stand beside the files."""
        counted = strict_json(public.microdata_rows.read_text(encoding="utf-8"))
        return {f"{_MICRODATA}/{name}": number for name, number in counted.items()}

    def rules(self, run: Verified, by_spine: RunTables, by_census: RunTables) -> Judged:
        """Reduce all records, and hold them to estimates and invariants."""
        return rules_of(run, by_spine, by_census)

    def described(self) -> tuple[dict[str, Any], ...]:
        """Describe the files."""
        plan = self.plan
        return microdata_dictionary(plan.product, plan.output.microdata, units=plan.invariants.units)

    def texts(self, manifest: PublicManifest, public: PublicLayout) -> Texts:
        """Return the headers of text files, and what stands beside them."""
        product, output, units = self.plan.product, self.plan.output, self.plan.invariants.units
        form = output.microdata_files
        whole: dict[Place, str] = {}
        begun: dict[Place, str] = {}
        for format, columns in files_of(product, output.microdata, units=units, form=form):
            heads = heads_of(
                product,
                format,
                columns,
                form,
                rows=manifest.rows[f"{_MICRODATA}/{columns.kind}.{format}"],
                created=manifest.created,
                notices=manifest.notices,
                software=str(manifest.versions.get("das_spark", "")),
            )
            whole |= {public.microdata_file(columns.kind, format, name): text for name, text in heads.beside.items()}
            if form == SINGLE and WRITERS[format].has_metadata_file:
                begun[public.microdata_single(columns.kind, format)] = heads.before
        return Texts(whole, begun)

    def _files(self) -> Iterator[tuple[str, str]]:
        for format in self.plan.output.microdata:
            for kind in self.plan.product.files(units=self.plan.invariants.units):
                yield f"{kind}.{format}", format


FEATURE: Final = Microdata
