"""Loads ``app/transform.py`` and calls the user's functions there; errors name the line."""

import importlib
import inspect
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaException
from quixstreams import Application
from quixstreams.dataframe import StreamingDataFrame, StreamingSeries
from quixstreams.models.topics.exceptions import TopicNotFoundError, TopicPermissionError

from app.consumer.user_code import at, defined_at, line_of
from app.errors import ConfigError, ConnectorError, FatalError, RetryableError

logger = logging.getLogger(__name__)

_LOADING = "loading app/transform.py"
_BUILDING = "building the stream with transform() of app/transform.py"
_CORRECT = "Correct it; `python main.py try` runs it on sample records, without Kafka"
_SIGNATURE = "Define it as transform(sdf), or as transform(sdf, app) to get the quixstreams application too"


@dataclass(frozen=True, slots=True)
class Customised:
    """The user's functions in ``app/transform.py``.

    Args:
        transform: gets the dataframe of the input topic, and the application where it has a parameter for it.
        on_stream_timeout: called with each key that falls silent.
    """

    transform: Callable[..., object]
    on_stream_timeout: Callable[[bytes], object] | None = None

    def build(self, dataframe: StreamingDataFrame, application: Application) -> StreamingDataFrame:
        """Call ``transform()``.

        Raises:
            ConfigError: it fails, or returns what records cannot come from.
            FatalError: it needs a topic on which the user has no rights.
            RetryableError: Kafka did not answer it.
        """
        arguments, named = _arguments(self.transform, dataframe, application)
        try:
            built = self.transform(*arguments, **named)
        except ConnectorError:
            raise
        except (Exception, SystemExit) as error:
            logger.debug("transform()", exc_info=True)
            raise _build_failed(error) from None
        if not isinstance(built, StreamingDataFrame):
            raise _not_a_dataframe(built, self.transform)
        if not _is_fed(built, dataframe, application):
            cause = f"it returned a stream that no record of topic {dataframe.topics[0].name} reaches"
            raise ConfigError(_BUILDING, f"{cause}{at(defined_at(self.transform))}", "Return what is made of sdf")
        return built


def load_customised() -> Customised:
    """Import ``app/transform.py``.

    Raises:
        ConfigError: it cannot be imported, or lacks what the connector needs from it.
    """
    try:
        module: Any = importlib.import_module("app.transform")
    except (Exception, SystemExit) as error:
        logger.debug("app/transform.py", exc_info=True)
        raise ConfigError(_LOADING, _described(error), _CORRECT) from None
    transform = getattr(module, "transform", None)
    if not callable(transform):
        cause = "it has no function transform" if transform is None else f"transform is {transform!r}"
        raise ConfigError(_LOADING, cause, _SIGNATURE)
    hook = getattr(module, "on_stream_timeout", None)  # a file from before there was one has none
    if hook is not None and not (callable(hook) and _takes(hook, b"")):
        cause = f"on_stream_timeout in app/transform.py is {hook!r}{at(defined_at(hook))}"
        raise ConfigError(_LOADING, cause, "Make it a function of one argument, the key, or None")
    return Customised(transform, hook)


def _arguments(transform: Callable[..., object], *given: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments for ``transform()``: dataframe and application, or the dataframe alone."""
    dataframe, application = given
    try:
        parameters = inspect.signature(transform).parameters
    except ValueError:  # a function that is not written in Python has no signature
        return (dataframe,), {}
    app = parameters.get("app")
    if app is not None and app.kind is not inspect.Parameter.POSITIONAL_ONLY and _takes(transform, 0, app=0):
        return (dataframe,), {"app": application}
    if _takes(transform, 0):
        return (dataframe,), {}
    if _takes(transform, 0, 0):
        return given, {}
    names = ", ".join(map(str, parameters.values()))
    raise ConfigError(_BUILDING, f"it is transform({names}){at(defined_at(transform))}", _SIGNATURE)


def _takes(function: Callable[..., object], *arguments: Any, **named: Any) -> bool:
    try:
        inspect.signature(function).bind(*arguments, **named)
    except TypeError:
        return False
    except ValueError:
        pass
    return True


def _described(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}{at(line_of(error))}" if str(error) else f"{error!r}{at(line_of(error))}"


def _build_failed(error: BaseException) -> ConnectorError:
    cause = _described(error)
    if isinstance(error, TopicNotFoundError):
        hint = "Create the topic: the connector creates only those that quixstreams needs for state and group_by()"
        return ConfigError(_BUILDING, cause, hint)
    if isinstance(error, TopicPermissionError):
        return FatalError(_BUILDING, cause, "The user needs Describe and DescribeConfigs rights on the topic")
    if isinstance(error, KafkaException):
        return RetryableError(_BUILDING, cause, "Check that the broker is up")
    return ConfigError(_BUILDING, cause, _CORRECT)


def _not_a_dataframe(built: object, transform: Callable[..., object]) -> ConfigError:
    if inspect.iscoroutine(built):
        built.close()  # it is never awaited
        cause = "it is an async function"
    elif built is None:
        cause = "it returned None"
    else:
        cause = f"it returned {built!r}"
    hint = "End it with `return sdf`, the stream of records to write"
    if isinstance(built, StreamingSeries):
        cause = "it returned a column or a condition"
        hint = f"A filter is `sdf = sdf[condition]`. {hint}"
    return ConfigError(_BUILDING, f"{cause}{at(defined_at(transform))}", hint)


def _is_fed(built: StreamingDataFrame, dataframe: StreamingDataFrame, application: Application) -> bool:
    """Whether records of the input topic can come out: its stream leads there, or another topic in between."""
    roots = {id(stream) for stream in built.stream.root_path() if not stream.parents}
    source = {id(stream) for stream in dataframe.stream.root_path() if not stream.parents}
    return bool(roots & source or application._topic_manager.repartition_topics)
