"""Variables of the topic and the consumer."""

from typing import Annotated, Literal

from pydantic import AfterValidator

from app.config.fields import Contradictions, env
from app.config.schema_registry import SchemaRegistryVariables

OffsetReset = Literal["earliest", "latest"]
BadRecords = Literal["dead-letter", "skip", "fail"]
OffAtZero = AfterValidator(lambda number: number if number and number > 0 else None)


class KafkaVariables(SchemaRegistryVariables):
    """The topic, the consumer, and what to do with its records."""

    input_topic: str = env("input", "sensor-data")
    consumer_group: str = env("CONSUMER_GROUP", "s3_direct_sink_v1.0")
    auto_offset_reset: OffsetReset = env("AUTO_OFFSET_RESET", "latest")
    follow_offsets: str = env("FOLLOW_OFFSETS", "")
    on_bad_record: BadRecords = env("ON_BAD_RECORD", "dead-letter")
    stream_timeout_ms: Annotated[int | None, OffAtZero] = env("STREAM_TIMEOUT_MS", None)
    stream_timeout_topic: str | None = env("STREAM_TIMEOUT_TOPIC", None, only_with="STREAM_TIMEOUT_MS")

    def contradictions(self) -> Contradictions:
        yield from super().contradictions()
        if self.stream_timeout_topic == self.input_topic:
            yield "STREAM_TIMEOUT_TOPIC", "must be another topic than input: the events would be read as records"
