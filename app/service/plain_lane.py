"""Builds the plain lane: the connector's own loop, where ``transform()`` needs nothing of quixstreams' loop.

The Quix application opens the topic with its deserializers, and its configuration makes Kafka's client.
"""

from dataclasses import replace
from functools import partial

from quixstreams import Application
from quixstreams.dataframe import StreamingDataFrame

from app.bad_records.refusals import ReadMessage
from app.consumer.deserializers import read_message
from app.consumer.plain.client import BrokerPresence, new_client
from app.consumer.plain.intake import Intake
from app.consumer.plain.loop import PlainLoop
from app.consumer.plain.row_message import row_of
from app.consumer.plain.transformer import Transformer
from app.delivery.claimer import Wanted
from app.kafka.topics import new_admin
from app.model import TopicPartition
from app.service.connector import Connector, Lane
from app.service.kafka import new_application


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
    presence = BrokerPresence()
    client = new_client(application.config, presence.properties)
    formats = connector.formats
    read: ReadMessage = partial(read_message, topic)
    transformer = None
    if built is not None:
        transformer = Transformer(
            topic,
            built,
            connector.limits,
            values_are_json=settings.value_deserializer == "json",
            keys_are_text=settings.key_deserializer == "str",
            clock=timings.clock,
        )
        # Rows come as text in JSON.
        formats, read = replace(formats, parser=None, read_key=None, ask_with=None), row_of
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
    loop = PlainLoop(client, intake, member, on_turn)
    return Lane(topic, admin, member, loop.consumption, loop.stop, partial(loop.run, topic.name))
