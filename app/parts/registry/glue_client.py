"""Queries the schema registry of AWS Glue, and converts answers to the form of Confluent's API."""

import json
import os
from functools import cached_property
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import unquote

import boto3
import botocore.session
from botocore import exceptions as boto
from botocore.config import Config
from botocore.parsers import ResponseParserError

from app.catalog.base import NotTakenError
from app.errors import FatalError, RetryableError, one_line
from app.parts.http.rest_client import Answer
from app.parts.registry.schema_registry import SERVICE
from app.storage.s3.errors import error_code, status_of
from app.storage.targets import is_aws_address

Keys = tuple[str | None, str | None, str | None]
_CONFIG: Final = Config(connect_timeout=5, read_timeout=10, retries={"mode": "standard", "total_max_attempts": 1})
_OF_ANOTHER_FORM: Final = (ValueError, AttributeError, TypeError, RecursionError)  # the answer is not from Glue
_ERRORS: Final = (boto.ClientError, boto.BotoCoreError, ResponseParserError, *_OF_ANOTHER_FORM)
_PASSING: Final = (boto.ConnectionError, boto.HTTPClientError, boto.CredentialRetrievalError, ResponseParserError)
_BUSY: Final = ("Throttling", "TooManyRequests", "RequestLimitExceeded")
_UNKNOWN: Final = Answer(SERVICE, HTTPStatus.NOT_FOUND, "", b'{"error_code":40400}', "")
_HINT: Final = (
    "Check SCHEMA_REGISTRY_URL, AWS_ENDPOINT_URL_GLUE and the network; allow glue:GetSchemaVersion for the keys in "
    "SCHEMA_REGISTRY_USERNAME and _PASSWORD, for those in AWS_ACCESS_KEY_ID without AWS_ENDPOINT_URL, or for a role"
)


class GlueClient:
    """A ``Client`` for ``glue://<region>/<name>``. A GUID is the id of a schema version. A subject is a schema's name.

    Args:
        keys: The access key, secret and session token; ``None`` if boto3 finds a login.
        store_url: The address of the store to which the keys belong. If the store is not AWS, the keys are not used.
    """

    def __init__(self, url: str, keys: Keys, store_url: str | None = None) -> None:
        self._region, _, self._registry = url.removeprefix("glue://").partition("/")
        self._are_of_others = store_url is not None and not is_aws_address(store_url)
        self._keys = (None, None, None) if self._are_of_others else keys

    @cached_property
    def _glue(self) -> Any:
        core = botocore.session.Session()
        glue, sts = (os.environ.get(f"AWS_ENDPOINT_URL_{name}") or None for name in ("GLUE", "STS"))
        if not (glue and sts):  # otherwise botocore uses AWS_ENDPOINT_URL, the store's address
            core.set_config_variable("ignore_configured_endpoint_urls", True)
        if self._are_of_others:
            core.get_component("credential_provider").remove("env")
        session = boto3.session.Session(*self._keys, self._region, core)
        return session.client("glue", endpoint_url=glue, config=_CONFIG)

    def ask(self, _method: str, path: str, doing: str, /, **_: Any) -> Answer:
        match path.partition("?")[0].split("/"):
            case ["", "schemas", "guids", guid]:
                question: dict[str, Any] = {"SchemaVersionId": guid}
            case ["", "subjects", name, "versions", "latest"]:
                schema = {"SchemaName": unquote(name), "RegistryName": self._registry}
                question = {"SchemaId": schema, "SchemaVersionNumber": {"LatestVersion": True}}
            case ["", "schemas", "ids", _]:
                return _UNKNOWN
            case _:
                raise FatalError(doing, "AWS Glue does not support this request")
        try:
            version = self._glue.get_schema_version(**question)
            answer = {"schema": version.get("SchemaDefinition"), "schemaType": version.get("DataFormat")}
            answer |= {"id": version.get("SchemaVersionId"), "version": version.get("VersionNumber")}
        except _ERRORS as error:
            code, status = (error_code(error), status_of(error)) if isinstance(error, boto.ClientError) else ("", 0)
            if code == "EntityNotFoundException":
                return _UNKNOWN
            if status == HTTPStatus.TOO_MANY_REQUESTS or any(word in code for word in _BUSY):
                raise NotTakenError(doing, one_line(str(error))) from error
            if status >= HTTPStatus.INTERNAL_SERVER_ERROR or isinstance(error, _PASSING):
                raise RetryableError(doing, one_line(str(error)), _HINT) from error
            raise FatalError(doing, one_line(str(error)), _HINT) from error
        if not answer["schema"]:  # botocore reads any web page as an empty answer
            raise FatalError(doing, "the answer has no schema", _HINT)
        return Answer(SERVICE, HTTPStatus.OK, "", json.dumps(answer).encode(), "")
