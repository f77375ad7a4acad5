"""Classes of the JVM that PySpark asks for with every column, looked up once: a lookup searches all jars of Spark."""

from __future__ import annotations

from typing import Any, Final

from pyspark import SparkContext

#: As PySpark spells them: in `pyspark.sql.functions`, in `pyspark.sql.classic.column`, and where sequences are made.
_CLASSES: Final = ("org.apache.spark.sql.functions", "functions", "PythonUtils", "PythonSQLUtils")


class _Members:
    """A class of the JVM, whose members are looked up once, too."""

    def __init__(self, java_class: Any) -> None:  # noqa: ANN401 - Py4J has no types
        self._java_class = java_class

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - as above
        member = getattr(self._java_class, name)
        setattr(self, name, member)
        return member


def keep_classes(context: SparkContext) -> None:
    """Keep the classes in the view that a context has of its JVM; again, it does nothing."""
    view: Any = context._jvm
    for name in _CLASSES:
        if name not in vars(view):
            setattr(view, name, _Members(getattr(view, name)))
