"""A workload: the queries that are measured, or reported, together."""

from __future__ import annotations

from dataclasses import dataclass

from das_spark.errors import QueryError
from das_spark.histogram.parser import unknown_name
from das_spark.histogram.query import Query


@dataclass(frozen=True, slots=True)
class Workload:
    """Some queries on one schema, each known by its name.

    Args:
        queries: The queries, in the order in which they are worked on.

    Raises:
        QueryError: When a name occurs twice, or the queries belong to schemas of different shape.
    """

    queries: tuple[Query, ...]

    def __post_init__(self) -> None:
        """Check that names are unique and shapes agree."""
        for position, query in enumerate(self.queries):
            if query.name in self.names[:position]:
                raise QueryError(f"the workload holds query {query.name!r} twice")
            if query.shape != self.queries[0].shape:
                raise QueryError(f"queries {self.queries[0].name!r} and {query.name!r} belong to different schemas")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the queries, in order."""
        return tuple(query.name for query in self.queries)

    def by_name(self, name: str) -> Query:
        """Find a query.

        Args:
            name: Its canonical name.

        Returns:
            The query.

        Raises:
            QueryError: When there is none of that name, with the nearest.
        """
        for query in self.queries:
            if query.name == name:
                return query
        raise unknown_name(name, self.names, "the workload: a reference")
