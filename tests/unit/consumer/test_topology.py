"""Each operation that a dataframe of quixstreams has counts, as a branch that is opened and as what is returned.

The choice between messages taken many at once and one by one hangs on it: what is overlooked gets no record.
"""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from quixstreams.dataframe import StreamingDataFrame
from quixstreams.dataframe.joins.lookups import SQLiteLookup, SQLiteLookupField
from quixstreams.sinks import BatchingSink
from quixstreams.sources import CSVSource

from app.consumer.application import is_untouched
from app.consumer.offline import OfflineApplication
from tests.fakes.offline_application import dataframe, offline

Operation = Callable[[StreamingDataFrame, OfflineApplication], Any]


class Keeping(BatchingSink):
    def write(self, batch: Any) -> None:
        """It is never asked to."""


def _lookup(sdf: StreamingDataFrame, _: OfflineApplication) -> Any:
    field = SQLiteLookupField(table="devices", columns=["place"], on="id")
    return sdf.join_lookup(SQLiteLookup(":memory:"), {"device": field}, on="device")


def _set(sdf: StreamingDataFrame, _: OfflineApplication) -> None:
    sdf["fahrenheit"] = sdf["celsius"] * 1.8 + 32


# By the name of the operation. Windows count once they are closed with what makes a stream of them.
OPERATIONS: dict[str, list[Operation]] = {
    "__getitem__": [lambda sdf, _: sdf[sdf["celsius"] > 20], lambda sdf, _: sdf[["celsius"]]],
    "__setitem__": [_set],
    "apply": [
        lambda sdf, _: sdf.apply(print),
        lambda sdf, _: sdf.apply(lambda value: [value], expand=True),
        lambda sdf, _: sdf.apply(lambda *given: given[0], stateful=True),
    ],
    "concat": [
        lambda sdf, app: sdf.concat(dataframe(app, "others")),
        lambda sdf, _: sdf.apply(print).concat(sdf.apply(repr)),
    ],
    "drop": [lambda sdf, _: sdf.drop("celsius")],
    "fill": [lambda sdf, _: sdf.fill("celsius")],
    "filter": [lambda sdf, _: sdf.filter(bool), lambda sdf, _: sdf.filter(lambda *_: True, stateful=True)],
    "group_by": [lambda sdf, _: sdf.group_by("place"), lambda _, app: _of_two(app).group_by("place")],
    "hopping_count_window": [lambda sdf, _: sdf.hopping_count_window(4, 2).count().final()],
    "hopping_window": [lambda sdf, _: sdf.hopping_window(1000, 500).count().current()],
    "join_asof": [lambda sdf, app: sdf.join_asof(dataframe(app, "others"))],
    "join_interval": [lambda sdf, app: sdf.join_interval(dataframe(app, "others"), backward_ms=timedelta(seconds=1))],
    "join_lookup": [_lookup],
    "print": [lambda sdf, _: sdf.print()],
    "print_table": [lambda sdf, _: sdf.print_table()],
    "register_store": [lambda sdf, _: sdf.register_store()],
    "session_window": [lambda sdf, _: sdf.session_window(1000).count().final()],
    "set_headers": [lambda sdf, _: sdf.set_headers(lambda *_: [])],
    "set_timestamp": [lambda sdf, _: sdf.set_timestamp(lambda *_: 0)],
    "sink": [lambda sdf, _: sdf.sink(Keeping()), lambda sdf, _: sdf[sdf["celsius"] > 20].sink(Keeping())],
    "sliding_count_window": [lambda sdf, _: sdf.sliding_count_window(3).count().final()],
    "sliding_window": [lambda sdf, _: sdf.sliding_window(1000).count().final()],
    "to_topic": [
        lambda sdf, app: sdf.to_topic(app.topic("alerts")),
        lambda sdf, app: sdf[sdf["celsius"] > 20].to_topic(app.topic("alerts")),
    ],
    "tumbling_count_window": [lambda sdf, _: sdf.tumbling_count_window(3).count().final()],
    "tumbling_window": [lambda sdf, _: sdf.tumbling_window(1000).count().final()],
    "update": [lambda sdf, _: sdf.update(print), lambda sdf, _: sdf.update(lambda *_: None, stateful=True)],
}
# These look at a dataframe, or describe something that nothing hangs on yet.
HARMLESS: dict[str, list[Operation]] = {
    "__getitem__": [lambda sdf, _: sdf["celsius"]],
    "compose": [lambda sdf, _: sdf.compose()],
    "contains": [lambda sdf, _: sdf.contains("celsius")],
    "processing_context": [lambda sdf, _: sdf.processing_context],
    "stream": [lambda sdf, _: sdf.stream],
    "stream_id": [lambda sdf, _: sdf.stream_id],
    "test": [lambda sdf, _: sdf.test({"celsius": 20})],
    "topics": [lambda sdf, _: sdf.topics],
    "tumbling_window": [lambda sdf, _: sdf.tumbling_window(1000)],
}
# What can be hung on the application rather than on the dataframe.
ELSEWHERE: dict[str, Operation] = {
    "another dataframe": lambda _, app: dataframe(app, "others").update(print),
    "a source": lambda _, app: app.add_source(CSVSource(path="devices.csv", name="devices")),
    "a sink": lambda sdf, _: sdf.processing_context.sink_manager.register(Keeping()),
    "a task": lambda sdf, _: sdf._registry.register_periodic_task(lambda: None),
    "the stream itself": lambda sdf, _: sdf.stream.add_apply(print),
}


def _of_two(application: OfflineApplication) -> StreamingDataFrame:
    """The input again, if it had two partitions."""
    return dataframe(application, "of-two", partitions=2)


def _cases(table: dict[str, list[Operation]]) -> list[Any]:
    each = [(name, number, operation) for name, some in table.items() for number, operation in enumerate(some)]
    return [pytest.param(operation, id=f"{name}-{number}") for name, number, operation in each]


@pytest.fixture
def application(tmp_path: Path) -> OfflineApplication:
    return offline(tmp_path)


def test_every_operation_of_a_dataframe_is_looked_at_here() -> None:
    names = {name for name in vars(StreamingDataFrame) if not name.startswith("_")} | {"__getitem__", "__setitem__"}
    assert names == OPERATIONS.keys() | HARMLESS.keys(), "quixstreams has another operation: does it count?"


@pytest.mark.parametrize("operation", _cases(OPERATIONS))
def test_a_branch_and_what_is_returned_count(operation: Operation, application: OfflineApplication) -> None:
    given = dataframe(application)
    returned = operation(given, application)
    assert not is_untouched(application, given, given)
    assert returned is None or not is_untouched(application, given, returned)


@pytest.mark.parametrize("operation", ELSEWHERE.values(), ids=ELSEWHERE)
def test_what_hangs_on_the_application_counts(operation: Operation, application: OfflineApplication) -> None:
    given = dataframe(application)
    operation(given, application)
    assert not is_untouched(application, given, given)


@pytest.mark.parametrize("operation", _cases(HARMLESS))
def test_looking_at_a_dataframe_counts_not(operation: Operation, application: OfflineApplication) -> None:
    given = dataframe(application)
    operation(given, application)
    assert is_untouched(application, given, given)


def test_other_topics_and_producers_count_not(application: OfflineApplication) -> None:
    given = dataframe(application)
    application.topic("alerts")
    application.get_producer()
    assert is_untouched(application, given, given)
