"""Loads ``app/transform.py``, and calls ``transform()``. Errors contain Python's message, the line and a hint."""

import importlib
import inspect
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaException
from quixstreams import Application
from quixstreams.dataframe import StreamingDataFrame
from quixstreams.models.topics.exceptions import CreateTopicFailure as CreateTopicError
from quixstreams.models.topics.exceptions import TopicNotFoundError

from app.consumer.errors import at_line_of
from app.consumer.plain.transformer import NeedsFrameworkError
from app.errors import ConfigError, ConnectorError, FatalError, RetryableError

logger = logging.getLogger(__name__)

REPARTITIONED = "repartition__"  # part of the names of quixstreams' topics for ``group_by()``
_LOADING = "loading app/transform.py"
_BUILDING = "building the stream with transform() of app/transform.py"
_CORRECT = "Correct it; `python main.py try` runs it on sample records, without Kafka"
_SIGNATURE = "Define it as transform(sdf), or as transform(sdf, app) to receive the quixstreams application too"


@dataclass(frozen=True, slots=True)
class Customised:
    transform: Callable[..., object]
    on_stream_timeout: Callable[[bytes], object] | None = None

    def build(self, dataframe: StreamingDataFrame, application: Application | None = None) -> StreamingDataFrame:
        """Call ``transform()``, and return its stream.

        Raises:
            ConfigError: The code of ``transform()`` has a mistake.
            NeedsFrameworkError: ``transform()`` needs the loop of quixstreams, but the application is missing.
        """
        try:
            built = self._call(dataframe, application)
        except ConnectorError:
            raise
        except (Exception, SystemExit) as error:
            logger.debug("transform()", exc_info=True)
            raise _build_failed(error) from None
        if not isinstance(built, StreamingDataFrame):
            hint = "End it with `return sdf`, the stream of records to write; a filter is `sdf = sdf[condition]`"
            raise ConfigError(_BUILDING, f"it returned {built!r}", hint)
        if not _is_fed(built, dataframe):
            cause = f"it returned a stream that no record of topic {dataframe.topics[0].name} reaches"
            raise ConfigError(_BUILDING, cause, "Return a stream made from sdf")
        return built

    def _call(self, dataframe: StreamingDataFrame, application: Application | None) -> object:
        takes_application = _takes_application(self.transform)
        if application is None:
            if takes_application:
                raise NeedsFrameworkError("the application")
            return self.transform(dataframe)
        vars(application)["run"] = _refuse_to_run
        try:
            return self.transform(dataframe, application) if takes_application else self.transform(dataframe)
        finally:
            vars(application).pop("run", None)


def load_customised() -> Customised:
    """Import ``app/transform.py``. If the import fails, raise ``ConfigError`` with the reason."""
    try:
        module: Any = importlib.import_module("app.transform")
    except (Exception, SystemExit) as error:
        logger.debug("app/transform.py", exc_info=True)
        raise ConfigError(_LOADING, _describe(error), _CORRECT) from None
    transform = getattr(module, "transform", None)
    if not callable(transform):
        raise ConfigError(_LOADING, "it has no function transform", _SIGNATURE)
    hook = getattr(module, "on_stream_timeout", None)
    if hook is not None and not callable(hook):
        raise ConfigError(_LOADING, f"on_stream_timeout is {hook!r}", "Make it a function of one argument, the key")
    return Customised(transform, hook)


def _refuse_to_run(*_: object, **__: object) -> None:
    raise ConfigError(_BUILDING, "it calls app.run()", "End it with `return sdf`: the connector runs the stream")


def _takes_application(transform: Callable[..., object]) -> bool:
    """Whether the function's second parameter is named ``app``, or has no default."""
    second = [*inspect.signature(transform).parameters.values()][1:2]
    return any(each.name == "app" or each.default is inspect.Parameter.empty for each in second)


def _describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}{at_line_of(error)}"


def _build_failed(error: BaseException) -> ConnectorError:
    cause = _describe(error)
    if isinstance(error, TopicNotFoundError):
        return RetryableError(_BUILDING, cause, "Check that the user may describe the topic that was just created")
    if isinstance(error, CreateTopicError):
        return FatalError(_BUILDING, cause, "Create the topic, or allow the user Create on it")
    if isinstance(error, KafkaException):
        return RetryableError(_BUILDING, cause, "Check that the broker is up")
    return ConfigError(_BUILDING, cause, _CORRECT)


def _is_fed(built: StreamingDataFrame, dataframe: StreamingDataFrame) -> bool:
    """Whether the input topic feeds the stream, directly or through an internal topic of quixstreams."""
    roots = {id(stream) for stream in built.stream.root_path() if not stream.parents}
    source = {id(stream) for stream in dataframe.stream.root_path() if not stream.parents}
    return bool(roots & source) or any(REPARTITIONED in topic.name for topic in built.topics)
