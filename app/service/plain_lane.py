"""Builds the plain lane: the connector's own loop, where ``transform()`` needs nothing of quixstreams' loop.

The Quix application opens the topic with its deserializers, and its configuration makes Kafka's client.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from quixstreams import Application
from quixstreams.dataframe import StreamingDataFrame
from quixstreams.models import Topic

from app.bad_records.refusals import ReadMessage
from app.config.settings import Settings
from app.consumer.deserializers import read_message
from app.consumer.plain.client import BrokerPresence, new_client
from app.consumer.plain.intake import Intake
from app.consumer.plain.loop import PlainLoop
from app.consumer.plain.row_message import row_of
from app.consumer.plain.transformer import Transformer
from app.delivery.claimer import Wanted
from app.delivery.limits import BatchLimits
from app.kafka.topics import new_admin
from app.model import TopicPartition
from app.service.connector import Connector, Lane
from app.service.formats import Formats
from app.service.kafka import new_application
from app.service.until import RunEnd, new_until


def new_plain_lane(connector: Connector, built: StreamingDataFrame | None) -> Lane:
    """Application → topic → client → claims and pipeline → intake → loop.

    ``built`` is what an edited ``transform()`` has built.
    """
    settings, timings = connector.settings, connector.runtime.timings
    application = new_application(Application, settings, connector.lake.location, connector.runtime.scratch, timings)
    admin = new_admin(application.config.broker_address)
    visible = connector.visible_topics(application)
    topic = connector.open_input(application, visible)
    announcer = connector.new_announcer(application, visible)
    connector.check_group(application, admin, topic)
    until = new_until(settings, connector.runtime, application, admin, [topic.name])
    presence = BrokerPresence()
    client = new_client(application.config, presence.properties)
    formats, read, transformer = new_reader(settings, connector.formats, topic, built, connector.limits, timings.clock)
    wanted = Wanted(settings.auto_offset_reset, settings.follow_offsets)
    member = connector.open_member(application, admin, topic, wanted, client.memberid, formats, read)

    def is_heard(tp: TopicPartition) -> bool:
        return presence.is_there and loop.is_read(tp)

    def on_turn(has_come: bool) -> None:
        if has_come:
            presence.heard()
        connector.health.turn()

    observer = connector.stream_timeouts.new_observer(is_heard, announcer)
    intake = Intake(connector.limits.max_record_bytes, connector.bad_records, observer, transformer)
    loop = PlainLoop(client, intake, member, on_turn, until)
    run_end = RunEnd(until, member, lambda: loop.consumption().tps, (), loop.stop) if until else None
    brokers = application.config.broker_address.bootstrap_servers
    return Lane(topic, admin, brokers, member, loop.consumption, loop.stop, partial(loop.run, topic.name), run_end)


def new_reader(
    settings: Settings,
    formats: Formats,
    topic: Topic,
    built: StreamingDataFrame | None,
    limits: BatchLimits,
    clock: Callable[[], float],
) -> tuple[Formats, ReadMessage, Transformer | None]:
    """What reads messages that were taken, many at once and single ones, and what runs ``transform()`` before that."""
    if built is None:
        return formats, partial(read_message, topic), None
    is_json, is_text = settings.value_deserializer == "json", settings.key_deserializer == "str"
    transformer = Transformer(topic, built, limits, values_are_json=is_json, keys_are_text=is_text, clock=clock)
    # Rows come as text in JSON.
    return replace(formats, parser=None, read_key=None, ask_with=None), row_of, transformer
