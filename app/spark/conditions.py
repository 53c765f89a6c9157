"""Conditions in SQL for rows to be erased: which of them are taken."""

import json
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

_CALL = "UnresolvedFunction"  # a class of Spark's parser
# Spark's groups of functions of which some call methods of Java, read files, or tell of the session.
_OUTSIDE = {"avro_funcs", "misc_funcs", "protobuf_funcs", "xml_funcs"}


def parsed(session: SparkSession, condition: str) -> Column:
    """Parses a condition that only takes the values of a row; refuses others with ``ValueError``.

    Those are not analyzed first, for then Spark loads classes and reads files.
    """
    catalyst: Any = session._jvm.org.apache.spark.sql.catalyst  # type: ignore[union-attr]
    tree = session._jsparkSession.sessionState().sqlParser().parseExpression(condition)
    patterns = catalyst.trees.TreePattern
    if any(map(tree.containsPattern, (patterns.PLAN_EXPRESSION(), patterns.UNRESOLVED_IDENTIFIER()))):
        raise ValueError("it has a subquery or IDENTIFIER(), and may only take the values of a row")
    if tree.getClass().getSimpleName() == "Alias":
        raise ValueError(f"it ends with {tree.name()!r}, which belongs to no operator")
    known = catalyst.analysis.FunctionRegistry.builtin()
    for name in {part["nameParts"].strip("[]") for part in json.loads(tree.toJSON()) if _CALL in part["class"]}:
        found = known.lookupFunction(catalyst.FunctionIdentifier(name))
        if found.isEmpty() or found.get().getGroup() in _OUTSIDE:
            raise ValueError(f"{name}() is no function of Spark that only takes the values of a row")
    return f.expr(condition)


def lasting_names(session: SparkSession, frame: DataFrame) -> set[str]:
    """Returns the columns that the condition of a filter names.

    Raises:
        ValueError: its answer may differ when rows are written.
    """
    plan = frame._jdf.queryExecution().analyzed()
    patterns = getattr(session._jvm, "org.apache.spark.sql.catalyst.trees.TreePattern")
    if not plan.deterministic() or plan.containsPattern(patterns.CURRENT_LIKE()):
        raise ValueError("its answer changes with the time or at random; write a date instead of the current one")
    named = plan.condition().references().toSeq()
    return {named.apply(number).name() for number in range(named.size())}
