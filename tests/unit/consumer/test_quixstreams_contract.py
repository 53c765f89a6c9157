"""The code of quixstreams that the connector overrides or relies on without its being promised.

A hash below that no longer fits is no fault by itself. It says: read the new code, hold it against the sentence beside
the hash, adapt the modules that rely on it where it no longer holds, and only then take over the hash.
"""

import hashlib
import inspect
import re
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from quixstreams import Application
from quixstreams.checkpointing.checkpoint import BaseCheckpoint, Checkpoint
from quixstreams.core.stream import Stream
from quixstreams.dataframe import StreamingDataFrame
from quixstreams.internal_consumer import InternalConsumer
from quixstreams.internal_consumer.buffering import InternalConsumerBuffer
from quixstreams.kafka.consumer import BaseConsumer, _wrap_assignment_errors
from quixstreams.models import Topic, TopicManager
from quixstreams.processing import ProcessingContext
from quixstreams.runtracker import RunTracker
from quixstreams.sinks import BatchingSink, SinkManager
from quixstreams.sinks.base import BaseSink
from quixstreams.sinks.core.stream_timeout_tracker import StreamTimeoutTracker

REQUIREMENTS = Path(__file__).resolve().parents[3] / "requirements.txt"


class Reliance(NamedTuple):
    code: Callable[..., Any] | type
    sha256: str
    on: str


RELIANCES = (
    Reliance(
        Application.__init__,
        "4f9d58bb0d533cad",
        "the processing context is made here, from public fields, and nothing made here keeps the first one "
        "(it is replaced by Checkpoints)",
    ),
    Reliance(
        Application.run,
        "0a7112c79acdf7bb",
        "signal handlers are installed through _setup_signal_handlers, the consumer is closed after the loop, and an "
        "exception marks the application as failed before that",
    ),
    Reliance(
        Application._run_dataframe,
        "d566798398e27be7",
        "each turn is: process a message, commit if due, resume what back-pressure paused; after the loop comes one "
        "forced commit; set_as_running forgets a stop asked for earlier",
    ),
    Reliance(
        Application._process_message,
        "7db434b3b830bcfe",
        "one message at a time; its offset is stored only after all its rows went through; a processing error that "
        "the callback raises itself comes out as raised",
    ),
    Reliance(Application._setup_signal_handlers, "ab73c3ab6d77a358", "it does nothing but install signal handlers"),
    Reliance(Application.stop, "57ae199f1102c72c", "safe before run() and in a signal handler"),
    Reliance(
        Application._on_assign,
        "0561f5982c8d030e",
        "it calls assign() with the partitions, so that resuming them afterwards is right",
    ),
    Reliance(
        Application._assign_partitions,
        "0d91b8fc0a0bf57e",
        "without state stores it only assigns, and pauses changelogs alone",
    ),
    Reliance(
        Application._on_revoke,
        "71fe22760d24efc7",
        "it commits with force and revoking, unless the application has failed, and forgets back-pressure",
    ),
    Reliance(
        Application._on_lost,
        "bebb6a2227b8a715",
        "it commits nothing and leaves the checkpoint and the sinks as they are",
    ),
    Reliance(
        Application._exception_handler,
        "534e503c60c38cdd",
        "it lets exceptions through and marks the application as failed",
    ),
    Reliance(
        ProcessingContext,
        "4a60f0818b3fdcef",
        "fields with init=True make an equal context; commit_checkpoint makes a new checkpoint after a commit, and "
        "keeps the old one when the commit raises",
    ),
    Reliance(
        BaseCheckpoint,
        "99b67d29c9b14928",
        "offsets must grow within a checkpoint; back-pressure seeks to the first stored one",
    ),
    Reliance(
        Checkpoint.commit,
        "047f917e4b1f569c",
        "sinks are flushed before offsets are committed, a commit error is a CheckpointConsumerCommitError; "
        "back-pressure of a sink pauses and seeks back without on_paused() for that very sink",
    ),
    Reliance(
        Checkpoint._flush_sink_bounded,
        "dfe01b1a08292840",
        "on revoke the flush runs on a thread of its own, and what it raises is only logged: nothing is committed then",
    ),
    Reliance(
        InternalConsumer.poll_row,
        "51457e82fd0bdccd",
        "what does not deserialize reaches on_consumer_error with its message, and what that raises comes out; "
        "each message is deserialized by its topic's row_deserialize() right before it is processed",
    ),
    Reliance(
        InternalConsumer._poll_unbuffered,
        "04f1b69566c14362",
        "errors of the broker reach on_consumer_error without a message; True passes over them",
    ),
    Reliance(InternalConsumer.trigger_backpressure, "9bc2b115cc9ef428", "it pauses all partitions and seeks back"),
    Reliance(
        InternalConsumer.resume_backpressured,
        "4ed9dd690868864c",
        "it resumes only what trigger_backpressure has paused",
    ),
    Reliance(InternalConsumer.reset_backpressure, "316590fc85ab45e6", "it forgets what was paused without resuming it"),
    Reliance(
        InternalConsumerBuffer.clear,
        "34ff55b74c3e4709",
        "it drops what was fetched ahead of one partition; nothing else of an assigned partition changes",
    ),
    Reliance(
        BaseConsumer._subscribe,
        "0232e15bd2bea7ba",
        "what a callback of a rebalance raises comes out of poll() as a PartitionAssignmentError",
    ),
    Reliance(
        _wrap_assignment_errors,
        "e2bc6a8803c30b28",
        "the error that was raised is the cause of the PartitionAssignmentError",
    ),
    Reliance(
        BaseConsumer.__init__,
        "9b75013b1755cb81",
        "the client is made of _consumer_config when it is first used, so a callback can still be set there",
    ),
    Reliance(BaseConsumer.commit, "eac4644ff83342c9", "asynchronous=False waits for the broker's answer"),
    Reliance(RunTracker.set_as_running, "5565d8cafcbf2938", "it forgets a stop asked for earlier"),
    Reliance(RunTracker.stop, "30e4d0086a60f74a", "safe at any time"),
    Reliance(BaseSink.start, "9f2fa492029074ed", "it is what run() calls first on a sink; nothing else needs setup()"),
    Reliance(
        StreamTimeoutTracker,
        "5590df65222559c1",
        "check_now() looks at _last_seen_by_stream alone, tells of what is silent and sweeps what was forgotten; only "
        "touch() and start() begin a thread",
    ),
    Reliance(
        Topic.row_deserialize,
        "c679280c2b6e6466",
        "the deserializer of keys is called once for each message that has one, before any row; a message that holds "
        "several records gives a list",
    ),
    Reliance(
        BaseConsumer._error_cb,
        "94cd0d4d9078223c",
        "_broker_unavailable_since is when the client said that no broker is there",
    ),
    Reliance(
        BaseConsumer._stats_cb,
        "c0cec930979a73c7",
        "_broker_states has the state of each broker, by what the client reports",
    ),
    Reliance(BaseConsumer._broker_available, "e802f7ce8a3e0675", "it takes back that no broker is there"),
    Reliance(
        Application.dataframe, "b4f779a034fd1316", "it registers the dataframe that it makes as the root of its topic"
    ),
    Reliance(
        Application._get_topic_manager,
        "9e439b487d834523",
        "all topics of an application come from the manager that it makes",
    ),
    Reliance(
        TopicManager,
        "1efc99e25e4c0cd4",
        "each topic goes through _get_or_create_broker_topic; changelog_topic() compares the number of partitions",
    ),
    Reliance(
        SinkManager, "a51c5ecbd196d8e4", "sinks are kept by their ids, and what is kept is what is started and flushed"
    ),
    Reliance(BatchingSink.flush, "ecbfe7e0d2321e74", "what it got is dropped at its end, also what came while it ran"),
    Reliance(Stream, "34abd9521088b3e8", "children of a node are the branches from it; a root has no parents"),
    Reliance(
        StreamingDataFrame.sink,
        "0b444bb01d506528",
        "add() is called in the context of the message it came from",
    ),
)


def _sha256(code: Callable[..., Any] | type) -> str:
    """Hash of the source without empty lines and indentation."""
    lines = (line.strip() for line in inspect.getsource(code).splitlines())
    return hashlib.sha256("\n".join(line for line in lines if line).encode()).hexdigest()[:16]


@pytest.mark.parametrize("reliance", RELIANCES, ids=lambda reliance: reliance.code.__qualname__)
def test_the_code_relied_on_is_the_one_that_was_read(reliance: Reliance) -> None:
    found = _sha256(reliance.code)
    name = f"{reliance.code.__module__}.{reliance.code.__qualname__}"
    assert found == reliance.sha256, (
        f"{name} of quixstreams {version('quixstreams')} has changed. The connector relies on this: {reliance.on}. "
        f"Read it again, adapt the connector if that no longer holds, then set the hash to {found}"
    )


def test_the_installed_version_is_the_pinned_one() -> None:
    pinned = re.search(r"^quixstreams==(\S+)$", REQUIREMENTS.read_text(), re.MULTILINE)
    assert pinned, "requirements.txt pins quixstreams exactly, for its private methods are overridden"
    assert version("quixstreams") == pinned[1]


def test_the_application_module_names_the_pinned_version() -> None:
    from app.consumer import application  # noqa: PLC0415 - only its docstring is of interest

    assert f"quixstreams {version('quixstreams')}" in (application.__doc__ or "")
