"""Chooses the lane from the stream of ``transform()`` and from the settings."""

from dataclasses import dataclass

from quixstreams.dataframe import StreamingDataFrame

from app.config.settings import Settings
from app.consumer.plain.transformer import NeedsFrameworkError, stateless_dataframe
from app.errors import ConfigError
from app.parts import FORMATS
from app.service.user_transform import Customised


@dataclass(frozen=True, slots=True)
class LaneChoice:
    """The lane, and the reason ``why`` it was chosen.

    ``is_stateless``: ``transform()`` can run without Kafka. The plain lane runs the stream ``built``, or ``None``.
    """

    is_plain: bool
    why: str
    is_stateless: bool = True
    built: StreamingDataFrame | None = None

    @property
    def is_untouched(self) -> bool:
        return self.is_plain and self.built is None


def choose_lane(customised: Customised, settings: Settings) -> LaneChoice:
    """Call ``transform()`` without Kafka, and choose the lane. Raise ``ConfigError`` for a wrong ``transform()``."""
    choice = _choose(customised, settings)
    if settings.has_several and not choice.is_plain:
        raise ConfigError(f"reading {settings.input_topic}", choice.why, "Set input to one topic")
    return choice


def _choose(customised: Customised, settings: Settings) -> LaneChoice:
    given = stateless_dataframe()
    try:
        built = customised.build(given)
    except NeedsFrameworkError as needed:
        return LaneChoice(False, f"transform() uses {needed}: each record goes through quixstreams", is_stateless=False)
    if setting := _setting_without_batches(settings):
        return LaneChoice(False, f"{setting} needs records one by one, so each goes through quixstreams")
    if not (given.stream.parents or given.stream.children):
        return LaneChoice(True, "transform() changes nothing: the connector reads thousands of messages at a time")
    return LaneChoice(
        True, "transform() needs no state, topic or sink: it runs over thousands of messages at a time", built=built
    )


def _setting_without_batches(settings: Settings) -> str | None:
    """Return the setting that prevents converting messages in batches; ``None`` if no setting prevents this.

    If a bad record ends the process, earlier records must reach the lake: records are converted one by one.
    """
    if not FORMATS[settings.value_deserializer].messages:
        return f"KAFKA_VALUE_DESERIALIZER={settings.value_deserializer}"
    if not FORMATS[settings.key_deserializer].keys_at_once:
        return f"KAFKA_KEY_DESERIALIZER={settings.key_deserializer}"
    return "ON_BAD_RECORD=fail" if settings.on_bad_record == "fail" else None
