"""Creates the plain lane with the connector's own loop, if ``transform()`` does not need the loop of quixstreams.

The Quix application opens the topic with deserializers. The configuration of this application creates Kafka's client.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial

from quixstreams import Application
from quixstreams.dataframe import StreamingDataFrame
from quixstreams.models import Topic

from app.config.settings import Settings
from app.consumer.plain.client import BrokerPresence, new_client
from app.consumer.plain.intake import Intake
from app.consumer.plain.loop import PlainLoop
from app.consumer.plain.transformer import Transformer
from app.consumer.rows import row_of
from app.delivery.batch_limits import BatchLimits
from app.delivery.claimer import StartSettings
from app.delivery.members import Members
from app.kafka.topics import new_admin, prefix_of
from app.service.connector import Connector, Lane
from app.service.formats import Formats, read_message
from app.service.kafka_client import new_application, open_topic, partition_fetch
from app.service.tables import Tables, topics_among


def new_plain_lane(connector: Connector, built: StreamingDataFrame | None) -> Lane:
    """Create the lane: application → topic → client → claims and pipeline → intake → loop.

    ``built`` is the stream of an edited ``transform()``.
    """
    settings, timings, records = connector.settings, connector.runtime.timings, connector.records
    application = new_application(Application, settings, connector.location, connector.runtime.scratch, timings)
    admin = new_admin(application.config.broker_address)
    visible = connector.visible_topics(application)
    topic, topics, subscribed = _open_inputs(connector, application, visible)
    observer = records.key_watch.new_observer(application, visible, lambda tp: presence.is_there and loop.is_read(tp))
    connector.check_group(application, admin, topics)
    run_end = connector.new_run_end(application, admin, topics)
    presence = BrokerPresence()
    # The assignor "range" assigns the first partitions of all topics to the first member. But without "range", members
    # that read one topic could not stay in the group while members that read several topics join.
    assignors = {"partition.assignment.strategy": "roundrobin,range"} if settings.has_several else {}
    fetch = {} if settings.has_several else partition_fetch(settings, topic.broker_config.num_partitions or 1)
    client = new_client(application.config, {**presence.properties, **assignors, **fetch})
    formats, transformer = new_reader(settings, records.formats, topic, built, records.limits, timings.clock)
    start = StartSettings(settings.auto_offset_reset, settings.follow_offsets)
    group = connector.join_group(application, admin, topics, start, client.memberid)
    if settings.has_tables:
        tables = Tables(connector, group, prefix_of(application), partial(connector.new_member, formats))
        connector.process.ends.callback(tables.stop)
        members = tables.members(topics)
    else:
        members = Members.of_one(topic.name, connector.open_member(group, formats))
    connector.process.ends.callback(members.stop)

    def on_turn(has_messages: bool) -> None:
        if has_messages:
            presence.heard()
        connector.monitor.health.turn()

    intake = Intake(records.limits.max_record_bytes, records.bad, formats.size_of, observer, transformer)
    loop = PlainLoop(client, intake, members, on_turn, run_end)
    if run_end:
        run_end.watch(members, lambda: members.assigned, loop.stop)
    return Lane(
        admin, application, topics, members, loop.consumption, loop.stop, partial(loop.run, *subscribed), run_end
    )


def _open_inputs(
    connector: Connector, application: Application, visible: Collection[str]
) -> tuple[Topic, Sequence[str], Sequence[str]]:
    """Return the deserializers, the names of the existing topics, and the topics or expressions to subscribe to."""
    settings, prefix = connector.settings, prefix_of(application)
    if not settings.has_several:
        topic = open_topic(settings, application, visible, **connector.records.deserializers)
        return topic, [topic.name], [topic.name]
    topic = Topic("input", **connector.records.deserializers)
    topics = topics_among(settings, visible, prefix)
    names = (f"^{prefix}({name[1:]})" if settings.is_expression else f"{prefix}{name}" for name in settings.topics)
    return topic, topics, [*names]


def new_reader(
    settings: Settings,
    formats: Formats,
    topic: Topic,
    built: StreamingDataFrame | None,
    limits: BatchLimits,
    clock: Callable[[], float],
) -> tuple[Formats, Transformer | None]:
    """Return the formats that read messages, and the transformer that first runs an edited ``transform()``."""
    if built is None:
        return replace(formats, read=partial(read_message, topic)), None
    is_json, is_text = settings.value_deserializer == "json", settings.key_deserializer == "str"
    transformer = Transformer(topic, built, limits, values_are_json=is_json, keys_are_text=is_text, clock=clock)
    # The transformer returns rows as JSON text.
    return replace(formats, parser=None, read_key=None, ask_with=None, read=row_of), transformer
