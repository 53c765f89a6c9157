"""Builds the framework's lane: the loop of quixstreams, where ``transform()`` is edited."""

import logging
from functools import partial

from app.consumer.application import LakeApplication
from app.consumer.assignment import Assignments
from app.consumer.consumption import Consumption
from app.consumer.loop import new_loop
from app.consumer.paused_partitions import PausedPartitions
from app.consumer.sink import LakeSink
from app.service.build import Member, new_application
from app.service.lane import Common, Lane, open_input, open_way

logger = logging.getLogger(__name__)


def new_framework_lane(common: Common) -> Lane:
    """Application → topic → the stream that ``transform()`` builds → claims and pipeline → sink → loop."""
    base = common.base
    settings, timings, metrics = base.settings, base.timings, base.metrics
    assignments = Assignments(metrics, timings)
    kind = partial(
        LakeApplication,
        assignments=assignments,
        max_record_bytes=settings.memory.max_record_bytes,
        metrics=metrics,
        timings=timings,
    )
    application = new_application(kind, settings, common.lake.location, base.scratch, timings)
    topic, announcer = open_input(common, application, application.admin)
    application.current.keep_of(topic)
    given = application.dataframe(topic)
    built = common.customised.build(given, application)
    application.built(is_untouched=common.customised.is_untouched)
    if application.internal_topics:
        logger.info("transform() keeps its own topics: %s", ", ".join(application.internal_topics))
    member = Member(
        assignments,
        application.consumer.memberid,
        application.admin,
        application.internal_topics,
        application.begins_at_commit,
    )
    claims, pipeline = open_way(common, application, topic, member)
    paused = PausedPartitions(application.consumer, claims, assignments, metrics)
    sink = LakeSink(
        pipeline=pipeline,
        assignments=assignments,
        limits=common.limits,
        bad_records=common.bad_records,
        metrics=metrics,
        observer=common.stream_timeouts.new_observer(paused.is_heard, announcer),
        timings=timings,
    )
    built.sink(sink)
    loop = new_loop(
        application=application,
        assignments=assignments,
        sink=sink,
        paused=paused,
        on_turn=common.health.turn,
        metrics=metrics,
        timings=timings,
    )
    application.start(loop)

    def consumption() -> Consumption:
        return Consumption(
            tps=assignments.tps,
            unclaimed=loop.unclaimed,
            fenced=assignments.fenced,
            oldest=assignments.oldest_uncommitted,
            consumed=loop.checkpoints.consumed,
            due_in=loop.checkpoints.due_in,
            held_bytes=sink.held_bytes,
            is_full=sink.is_full,
            is_paused=loop.is_paused,
            is_stopping=application.is_stopping,
            is_held_up=sink.is_held_up,
            recovers_state=application.recovers_state,
        )

    def run() -> bool:
        application.run()
        return not sink.left_rows_behind

    return Lane(topic, application.admin, pipeline, consumption, application.request_stop, run)
