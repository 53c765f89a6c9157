"""Chooses the lane by what ``transform()`` builds and by the settings."""

from dataclasses import dataclass

from quixstreams.dataframe import StreamingDataFrame

from app.config.settings import Settings
from app.consumer.plain.transformer import NeedsFrameworkError, stateless_dataframe
from app.errors import ConfigError
from app.parts import FORMATS
from app.service.user_transform import Customised


@dataclass(frozen=True, slots=True)
class LaneChoice:
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


def choose_lane(customised: Customised, settings: Settings) -> LaneChoice:
    """Let ``transform()`` build without Kafka; raises ``ConfigError`` if it has a mistake, or needs one topic alone."""
    choice = _choice(customised, settings)
    if settings.has_several and not choice.is_plain:
        raise ConfigError(f"reading {settings.input_topic}", choice.why, "Name one topic in input")
    return choice


def _choice(customised: Customised, settings: Settings) -> LaneChoice:
    given = stateless_dataframe()
    try:
        built = customised.build(given)
    except NeedsFrameworkError as needed:
        return LaneChoice(False, f"transform() uses {needed}: each record goes through quixstreams", is_stateless=False)
    if wants := _one_by_one(settings):
        return LaneChoice(False, f"{wants} wants records one by one, so each goes through quixstreams")
    if not (given.stream.parents or given.stream.children):
        return LaneChoice(True, "transform() changes nothing: thousands of messages are taken at once")
    return LaneChoice(
        True, "transform() needs no state, topic or sink: it runs over thousands of messages at once", built=built
    )


def _one_by_one(settings: Settings) -> str | None:
    """The setting that does not allow converting messages in batches, if there is one.

    If a bad record ends the process, the records before it must reach the lake first: each is converted by itself.
    """
    if not FORMATS[settings.value_deserializer].messages:
        return f"KAFKA_VALUE_DESERIALIZER={settings.value_deserializer}"
    if not FORMATS[settings.key_deserializer].keys_at_once:
        return f"KAFKA_KEY_DESERIALIZER={settings.key_deserializer}"
    return "ON_BAD_RECORD=fail" if settings.on_bad_record == "fail" else None
