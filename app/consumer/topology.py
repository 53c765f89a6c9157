"""What hangs on the dataframes of an application."""

from quixstreams import Application
from quixstreams.dataframe import StreamingDataFrame


def is_untouched(application: Application, given: StreamingDataFrame, returned: StreamingDataFrame) -> bool:
    """Whether nothing at all has to see a record but the sink that is attached next.

    Looks at the given stream from its root on, for a branch leaves the stream that it starts from as it was. What an
    operation registers elsewhere counts too: other dataframes, state, topics of the framework, sinks, tasks.
    """
    stream, registry = given.stream, given._registry
    topics, state = application._topic_manager, application._state_manager
    return (
        returned is given
        and not (stream.parents or stream.children)
        and [topic.name for topic in registry.consumer_topics] == [topic.name for topic in given.topics]
        and not (registry._periodic_tasks or registry.requires_time_alignment)
        and not (topics.repartition_topics or topics.changelog_topics_list or state.stores)
        and not given.processing_context.sink_manager.sinks
        and not application._source_manager.sources
    )
