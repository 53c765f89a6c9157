"""Creates the framework's lane: quixstreams runs the stream of ``transform()``, and ``RowSink`` receives the rows.

quixstreams creates the topics for state and ``group_by()``.
"""

import signal
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from quixstreams import Application
from quixstreams.dataframe import StreamingDataFrame
from quixstreams.internal_producer import InternalProducer
from quixstreams.models import Topic

from app.consumer.commits import commit_where_partitions_begin, mark_commits
from app.consumer.framework.application import Callbacks, run
from app.consumer.framework.current import CurrentMessage, Due
from app.consumer.framework.flushing import Flushing
from app.consumer.framework.sink import RowSink
from app.consumer.sink_observer import Observed
from app.delivery.claimer import StartSettings
from app.delivery.member import Member
from app.delivery.members import Members
from app.errors import ConnectorError
from app.kafka.topics import new_admin
from app.model import TopicPartition
from app.service.connector import Connector, Lane
from app.service.kafka_client import new_application, open_topic
from app.service.user_transform import REPARTITIONED


def new_framework_lane(connector: Connector) -> Lane:
    """Create the lane: application → topic → the stream of ``transform()`` → claims and pipeline → sink."""
    settings, runtime, records = connector.settings, connector.runtime, connector.records
    current = CurrentMessage(records.limits.max_record_bytes, holds_several=records.formats.value.split_values)

    def tick() -> None:
        connector.monitor.health.turn()
        if connector.process.stop.is_set():  # quixstreams ignores a stop that was requested before quixstreams ran
            application.stop()
        if run_end:
            callbacks.assignment = [TopicPartition(each.topic, each.partition) for each in consumer.assignment()]

    callbacks = Callbacks(current, tick)
    visible = connector.visible_topics(_application(connector, callbacks))
    build = partial(_build, connector, callbacks, visible)
    application, topic, built, is_aligned = runtime.metrics.waits.at_start("Kafka", build)
    admin = new_admin(application.config.broker_address)
    connector.check_group(application, admin, [topic.name])
    observer = records.key_watch.new_observer(
        application, visible, lambda tp: callbacks.is_kafka_there and sink.is_read(tp)
    )
    topics = {each.name: each for each in (topic, *built.topics)}
    internal = [name for name in topics if REPARTITIONED in name]
    current.watch(topics.values(), topic.name)
    run_end = connector.new_run_end(application, admin, topics.keys() - internal)
    if run_end:
        for name in topics.keys() - internal:
            vars(topics[name])["row_deserialize"] = run_end.only(topics[name].row_deserialize)
    consumer = built.processing_context.consumer
    start = StartSettings(settings.auto_offset_reset, settings.follow_offsets, internal, keeps_state=True)
    # The member has no id, because it does not claim again: quixstreams goes back, and the next flush claims.
    group = connector.join_group(application, admin, [topic.name], start, lambda: None)
    member = connector.open_member(group)
    members = Members.of_one(topic.name, member)
    connector.process.ends.callback(members.stop)

    sink = callbacks.sink = RowSink(
        member,
        Flushing(member, mark_commits(consumer)),
        records.bad,
        current,
        Due(settings.commit_interval, runtime.timings),
        Observed(observer),
        on_start=_restoring_signal_handlers(),
        can_go_back=not is_aligned,
    )
    built.sink(sink)
    begin = partial(_commit_beginnings, member, topics.keys() - internal)  # before quixstreams reads

    def stop() -> None:
        sink.stop()
        application.stop()

    def consume() -> bool:
        runtime.metrics.waits.at_start("Kafka", begin)
        try:
            run(application)
        except ConnectorError:  # an error of the closing client may hide the error of a revocation
            members.raise_failure()
            raise
        return not sink.is_held_up  # another sink of transform() may silently refuse the last flush

    if run_end:
        run_end.watch(members, lambda: callbacks.assignment, stop)
    return Lane(
        admin, application, [topic.name], members, lambda: sink.consumption(callbacks.assigned), stop, consume, run_end
    )


def _application(connector: Connector, callbacks: Callbacks) -> Application:
    def with_callbacks(**arguments: Any) -> Application:
        return Application(**arguments | callbacks.arguments(arguments["consumer_extra_config"]))

    runtime, location = connector.runtime, connector.location
    return new_application(
        with_callbacks, connector.settings, location, runtime.scratch, runtime.timings, auto_create_topics=True
    )


def _build(
    connector: Connector, callbacks: Callbacks, visible: Collection[str]
) -> tuple[Application, Topic, StreamingDataFrame, bool]:
    """Call ``transform()`` with a new application, because a retry needs a new one if a broker does not see a topic.

    Also return whether quixstreams may align topics by time.
    """
    application = _application(connector, callbacks)
    topic = open_topic(connector.settings, application, visible, **connector.records.deserializers)
    names = names_of_dataframes(application)
    given = application.dataframe(topic)
    callbacks.notice_records(given)
    built = connector.records.customised.build(given, application)
    _delay_client(built.processing_context.producer)
    return application, topic, built, len(names) > 1 or len(built.topics) > 1


def _delay_client(producer: InternalProducer) -> None:
    """Make the producer create its client at the first record, because the client needs an additional right."""
    poll, flush = producer.poll, producer.flush
    vars(producer)["poll"] = lambda *given, **named: poll(*given, **named) if producer.instantiated else None
    vars(producer)["flush"] = lambda *given, **named: flush(*given, **named) if producer.instantiated else 0


def names_of_dataframes(application: Application) -> Collection[str]:
    """Return a set that collects topics of new dataframes, because ``transform()`` may return a new dataframe."""
    names: set[str] = set()
    dataframe = application.dataframe

    def note_topics(*arguments: Any, **named: Any) -> StreamingDataFrame:
        sdf = dataframe(*arguments, **named)
        names.update(topic.name for topic in sdf.topics)
        return sdf

    vars(application)["dataframe"] = note_topics
    return names


def _commit_beginnings(member: Member, topics: Collection[str]) -> None:
    offsets = member.group.offsets
    tps = sorted(tp for name in topics for tp in offsets.ends(name))
    with ThreadPoolExecutor(member.runtime.workers) as pool:
        commit_where_partitions_begin(offsets.consumer, zip(tps, pool.map(member.would_begin, tps), strict=True))


def _restoring_signal_handlers() -> Callable[[], None]:
    """Return a function that restores the present signal handlers after quixstreams has set handlers."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in handlers.items():
            signal.signal(number, handler)

    return restore
