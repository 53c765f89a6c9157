"""Chooses the lane: the connector's own loop, or that of quixstreams."""

from dataclasses import dataclass

from quixstreams.dataframe import StreamingDataFrame

from app.config.settings import Settings
from app.consumer.plain.transformer import NeedsFrameworkError, stateless_dataframe
from app.service.build import one_by_one
from app.service.customised import Customised


@dataclass(frozen=True, slots=True)
class Choice:
    """The lane, and ``why``.

    ``is_stateless``: ``transform()`` could build without Kafka. The plain lane runs what it has ``built``, if anything.
    """

    is_plain: bool
    why: str
    is_stateless: bool = True
    built: StreamingDataFrame | None = None

    @property
    def is_untouched(self) -> bool:
        return self.is_plain and self.built is None


def choose_lane(customised: Customised, settings: Settings) -> Choice:
    """Let ``transform()`` build without Kafka; raises ``ConfigError`` if it has a mistake."""
    given = stateless_dataframe()
    try:
        built = customised.build(given)
    except NeedsFrameworkError as needed:
        return Choice(False, f"transform() uses {needed}, so each record goes through quixstreams", is_stateless=False)
    if wants := one_by_one(settings):
        return Choice(False, f"{wants} wants records one by one, so each goes through quixstreams")
    if not (given.stream.parents or given.stream.children):
        return Choice(True, "transform() changes nothing: thousands of messages are taken at once")
    return Choice(
        True, "transform() needs no state, topic or sink: it runs over thousands of messages at once", built=built
    )
