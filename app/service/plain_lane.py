"""Builds the plain lane: the connector's own loop, where ``transform()`` is untouched.

The Quix application opens the topic with its deserializers, and its configuration makes Kafka's client.
"""

from functools import partial

from quixstreams import Application

from app.consumer.plain.client import BrokerPresence, new_client
from app.consumer.plain.intake import Intake
from app.consumer.plain.loop import PlainLoop
from app.consumer.plain.reader import MessageReader
from app.kafka.topics import new_admin
from app.model import TopicPartition
from app.service.build import Member, new_application
from app.service.lane import Common, Lane, check_group, new_announcer, open_input, open_way, visible_topics


def new_plain_lane(common: Common) -> Lane:
    """Application → topic → client → claims and pipeline → sink → loop."""
    base = common.base
    settings, timings, metrics = base.settings, base.timings, base.metrics
    application = new_application(Application, settings, common.lake.location, base.scratch, timings)
    admin = new_admin(application.config.broker_address)
    visible = visible_topics(common, application)
    topic = open_input(common, application, visible, common.stream_timeouts.key_deserializer, common.formats.value)
    announcer = new_announcer(common, application, visible)
    check_group(common, application, admin, topic)
    presence = BrokerPresence()
    client = new_client(application.config, presence.properties)
    member = Member(client.memberid, admin)
    reader = MessageReader(topic)
    _, claimer, pipeline = open_way(common, application, topic, member, reader.read)

    def is_heard(tp: TopicPartition) -> bool:
        return presence.is_there and loop.is_read(tp)

    def on_turn(has_come: bool) -> None:
        if has_come:
            presence.heard()
        common.health.turn()

    observer = common.stream_timeouts.new_observer(is_heard, announcer)
    intake = Intake(common.limits.max_record_bytes, common.bad_records, observer)
    loop = PlainLoop(client, intake, claimer, pipeline, on_turn, metrics, timings)
    return Lane(topic, admin, pipeline, loop.consumption, loop.stop, partial(loop.run, topic.name))
