"""Events of lineage for a collector of OpenLineage: a driver began, ended, failed or was stopped, on which dataset.

They are sent where the environment names a collector, as the client of OpenLineage reads it. An event tells what run
files, public manifests and the name of the dataset tell, and nothing that follows from its people: no counts, no
stages, no messages. When it is sent is known to the collector, and how long a driver works follows from the size of the
input: a collector belongs to those who may see what is restricted.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from das_spark.telemetry.events import Event

if TYPE_CHECKING:
    from openlineage.client import OpenLineageClient
    from openlineage.client.event_v2 import RunEvent

#: Variables of the environment of which each names a collector, or a file that does.
_COLLECTORS: Final = ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG", "OPENLINEAGE__TRANSPORT__TYPE")
_STATES: Final = {
    Event.RUN_OPENED: "START",
    Event.RUN_RESUMED: "START",
    Event.RUN_FINISHED: "COMPLETE",
    Event.RUN_LEFT: "COMPLETE",
    Event.RUN_FAILED: "FAIL",
    Event.RUN_INTERRUPTED: "ABORT",
}
_NAMESPACE: Final = "das_spark"
_PRODUCER: Final = "urn:das_spark"  # of the events and facets; a URI
#: What the first event of a driver carries over from the log, as tags; all of it stands in public files, too.
_TAGS: Final = ("product", "config_hash", "insecure", "software")


class LineageOf(NamedTuple):
    """What a run is to a collector of lineage.

    Attributes:
        job: Name of the run in its run file.
        dataset: Name of the people; empty where they have none.
        public: Namespace and name of its public root.
    """

    job: str
    dataset: str
    public: tuple[str, str]


class LineageEvents(logging.Handler):
    """Sends the beginning and the end of a driver to a collector; each driver is a run of its own there.

    A collector that does not answer is not asked again by this driver, and `failed` is told once.
    """

    def __init__(self, client: OpenLineageClient, of: LineageOf, failed: Callable[[str], None]) -> None:
        """Send by the client."""
        super().__init__()
        from openlineage.client.uuid import generate_new_uuid  # noqa: PLC0415 - of an extra

        self.client: OpenLineageClient | None = client
        self.of, self.failed, self.run = of, failed, str(generate_new_uuid())
        self.tags: dict[str, str] = {}

    def emit(self, record: Any) -> None:  # noqa: ANN401 - a record of `log_record`, with its attributes
        """Send one event, if it is about the driver."""
        if self.client is None or record.event not in _STATES:
            return
        client, ends = self.client, _STATES[record.event] != "START"
        try:
            client.emit(self._event(record))
            if ends:
                client.close()
        except Exception as error:  # noqa: BLE001 - a run is not worth less because nobody hears of it
            self.client = None
            self.failed(_unheard(error))
        if ends:
            self.client = None

    def _event(self, record: Any) -> RunEvent:  # noqa: ANN401 - as above
        from openlineage.client import event_v2  # noqa: PLC0415 - of an extra
        from openlineage.client.facet_v2 import error_message_run, tags_run  # noqa: PLC0415 - the same

        if not self.tags:
            self.tags = {"run_id": record.run_id} | {
                name: str(record.fields[name]) for name in _TAGS if name in record.fields
            }
        tags = [tags_run.TagsRunFacetFields(name, value, _NAMESPACE) for name, value in self.tags.items()]
        facets: dict[str, Any] = {"tags": tags_run.TagsRunFacet(tags, producer=_PRODUCER)}
        if record.event is Event.RUN_FAILED:
            # The code of an error says what kind it is; its message may name geounits.
            code = str(record.fields.get("code") or record.fields["error"])
            facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(code, "Python", producer=_PRODUCER)
        made = record.event is Event.RUN_FINISHED
        return event_v2.RunEvent(
            eventTime=datetime.now(UTC).isoformat(),
            producer=_PRODUCER,
            run=event_v2.Run(self.run, facets),
            job=event_v2.Job(_NAMESPACE, self.of.job),
            eventType=event_v2.RunState[_STATES[record.event]],
            inputs=[event_v2.InputDataset(_NAMESPACE, self.of.dataset)] if self.of.dataset else [],
            outputs=[event_v2.OutputDataset(*self.of.public)] if made else [],
        )


def lineage_events(of: LineageOf, failed: Callable[[str], None]) -> LineageEvents | None:
    """A handler for the collector that the environment names; None where it names none, or it cannot be used.

    Args:
        of: The run.
        failed: Is told why nothing is sent, where something should be.
    """
    if not any(os.environ.get(name) for name in _COLLECTORS):
        return None
    try:
        from openlineage.client import OpenLineageClient  # noqa: PLC0415 - of an extra

        return LineageEvents(OpenLineageClient(), of, failed)
    except ImportError:
        failed("lineage: nothing is sent: the client is missing; pip install 'das-spark[lineage]'")
    except Exception as error:  # noqa: BLE001 - as above
        failed(_unheard(error))
    return None


def _unheard(error: Exception) -> str:
    return f"lineage: the collector does not take what is sent ({type(error).__name__}); the run goes on without it"
