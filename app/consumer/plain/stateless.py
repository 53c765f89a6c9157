"""The dataframe that finds out whether ``transform()`` needs quixstreams' loop.

``transform()`` builds on it without Kafka. What it has built is run over many messages at once; see ``transformer``.
"""

from types import SimpleNamespace
from typing import Any

from quixstreams.dataframe import StreamingDataFrame
from quixstreams.dataframe.registry import DataFrameRegistry
from quixstreams.models import Topic

# What works record by record, and what quixstreams asks for that. All else needs its loop: state, windows, joins,
# topics, sinks, and what is new in a later version. A stateful function asks for ``register_store``.
_STATELESS = frozenset({"apply", "update", "filter", "drop", "fill", "contains", "set_timestamp", "set_headers"})
_ASKED_FOR = frozenset({"stream", "stream_id"})


class NeedsFrameworkError(BaseException):
    """``transform()`` asks for this; no ``except Exception`` of its code is to catch it."""


class StatelessDataFrame(StreamingDataFrame):
    """Raises ``NeedsFrameworkError`` where it is asked for more than functions of single records.

    quixstreams makes all dataframes that come of it of the same class.
    """

    def __getattribute__(self, name: str) -> Any:
        is_more = not name.startswith("_") and name not in _STATELESS | _ASKED_FOR
        if is_more and hasattr(StreamingDataFrame, name):  # else it is misspelled
            raise NeedsFrameworkError("stateful=True" if name == "register_store" else f"sdf.{name}")
        return super().__getattribute__(name)


StatelessDataFrame.__name__ = StreamingDataFrame.__name__  # as errors in transform() call it


def stateless_dataframe() -> StreamingDataFrame:
    nothing: Any = SimpleNamespace(producer=None)  # an application has a manager of topics, and a context of processing
    topic = Topic("input")  # no function sees it
    return StatelessDataFrame(
        topic, topic_manager=nothing, registry=DataFrameRegistry(), processing_context=nothing, stream_id=topic.name
    )
