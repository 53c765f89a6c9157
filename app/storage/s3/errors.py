"""Translates errors of boto3 into the connector's errors."""

import re
from http import HTTPStatus

from botocore import exceptions as boto
from botocore.parsers import ResponseParserError
from urllib3.exceptions import HTTPError

from app.container import with_own_address
from app.errors import ConfigError, ConnectorError, FatalError, RetryableError, innermost, last_words, one_line
from app.storage.cloud_store import MissingBucketError
from app.storage.errors import PASSES, ErrorRules, Rule

PROXY_HINT = "Check AWS_ENDPOINT_URL, and any proxy on the way"
_ADDRESS_HINT = "Check S3_BUCKET, AWS_ENDPOINT_URL and AWS_REGION"
_TLS_HINT = "Check http:// or https:// in AWS_ENDPOINT_URL; for a private authority set AWS_CA_BUNDLE to its file"
_KEYS = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
_SESSION_HINT = "Check AWS_SESSION_TOKEN: it must be the token issued with AWS_ACCESS_KEY_ID"
_TRUST_HINT = (
    "Check S3_ROLE_ARN, the login and AWS_REGION. The login needs sts:AssumeRole on the role, and the trust policy of "
    "the role must allow the login, with S3_ROLE_EXTERNAL_ID if the policy requires one"
)
_LENT_HINT = "The Iceberg catalog has issued these keys. The connector requests new keys before they end"
_ROLE_HINT = "The keys of a role are renewed automatically; check the role if this continues"

_BUCKET_IN_ADDRESS = "AWS_ENDPOINT_URL contains the name of a bucket, as its path or a sub-domain: remove it there"
_RULES = ErrorRules(
    {
        # The store is busy, or received a damaged request. As after a status 5xx, a retry may succeed.
        "SlowDown": PASSES,
        "Throttling": PASSES,
        "ThrottlingException": PASSES,
        "RequestThrottled": PASSES,
        "RequestLimitExceeded": PASSES,
        "RequestTimeout": PASSES,
        "OperationAborted": PASSES,
        "ConditionalRequestConflict": PASSES,  # another request writes the same object
        "TemporaryRedirect": PASSES,  # a new bucket, before DNS knows its region
        "BadDigest": PASSES,
        "IncompleteBody": PASSES,
        "XAmzContentSHA256Mismatch": PASSES,
        "NoSuchUpload": PASSES,  # the upload was completed and the answer was lost, or it was deleted
        "ExpiredToken": Rule(RetryableError, _ROLE_HINT),
        "ExpiredTokenException": Rule(RetryableError, _ROLE_HINT),
        # A request that was signed before the machine slept fails too. A retry with a new signature succeeds.
        "RequestTimeTooSkewed": Rule(RetryableError, "Set this machine's clock (NTP): it differs from the store's"),
        "XMinioStorageFull": Rule(RetryableError, "Free some space on the storage server"),
        "NoSuchBucket": Rule(
            MissingBucketError,
            "Check S3_BUCKET, STORAGE_URL and AWS_ENDPOINT_URL; create the bucket, or set CREATE_BUCKET=true; then "
            "restart",
        ),
        "InvalidBucketName": Rule(ConfigError, "Check S3_BUCKET and STORAGE_URL"),
        "InvalidAccessKeyId": Rule(FatalError, "Check AWS_ACCESS_KEY_ID, and AWS_ENDPOINT_URL for whose key it is"),
        "SignatureDoesNotMatch": Rule(FatalError, "Check AWS_SECRET_ACCESS_KEY"),
        "InvalidToken": Rule(FatalError, _SESSION_HINT),
        "InvalidTokenId": Rule(FatalError, _SESSION_HINT),
    }
)
# Codes for temporary keys that the store no longer accepts.
REVOKED = {"ExpiredToken", "ExpiredTokenException", "InvalidAccessKeyId", "InvalidToken", "InvalidTokenId"}
_WRONG_REGION = {"PermanentRedirect", "AuthorizationHeaderMalformed"}
_REDIRECTS = range(HTTPStatus.MULTIPLE_CHOICES, HTTPStatus.BAD_REQUEST)

# The rights whose names differ from the operations' names.
_RIGHTS = {
    "ListObjectsV2": "s3:ListBucket",
    "CreateMultipartUpload": "s3:PutObject",
    "UploadPart": "s3:PutObject",
    "CompleteMultipartUpload": "s3:PutObject",
}
_OF_THE_BUCKET = {"s3:ListBucket", "s3:CreateBucket"}
_NAMED_RIGHT = re.compile(r"not authorized to perform: ([\w-]+:\w+)")


def translate(
    error: Exception, doing: str, bucket: str, keys: str, *, fixed_token: bool, lent: bool = False
) -> ConnectorError | None:
    """Returns the connector's error for an error of boto3; ``None`` for any other error.

    The error for a missing right contains the ``keys``, such as ``data/t/*``. A ``fixed_token`` is never renewed.
    ``lent``: The catalog has issued the access key.
    """
    if isinstance(error, boto.ClientError):
        refusal = _from_answer(error, doing, bucket, keys, fixed_token=fixed_token)
        return _of_lent_key(error, refusal, bucket, keys) if lent else refusal
    if isinstance(error, boto.SSLError):
        if "EOF" in str(error):  # the handshake was interrupted: the store or its load balancer restarts
            return RetryableError(doing, one_line(str(error)))
        return FatalError(doing, one_line(str(error)), _TLS_HINT)
    if isinstance(error, boto.ConnectionError | boto.HTTPClientError):
        hint = "Check AWS_ENDPOINT_URL, and that the network allows connections to the store"
        return RetryableError(doing, _reason(error), with_own_address(hint, str(error)))
    if isinstance(error, boto.IncompleteReadError | boto.FlexibleChecksumError | ResponseParserError | HTTPError):
        cause = f"the answer arrived damaged: {one_line(str(innermost(error)))}"
        return RetryableError(doing, cause, PROXY_HINT)
    return _from_settings(error, doing) if isinstance(error, boto.BotoCoreError) else None


def error_code(error: boto.ClientError) -> str:
    """Returns the store's name of the error, such as ``NoSuchKey``; empty if the answer contains no name."""
    return error.response.get("Error", {}).get("Code") or ""  # boto3 returns None for an empty element


def status_of(error: boto.ClientError) -> int:
    return error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)


def _from_settings(error: boto.BotoCoreError, doing: str) -> ConnectorError:
    """Translates errors that occur before a request is sent: errors in access keys, names or configuration files."""
    cause = one_line(str(error))
    if isinstance(error, boto.NoCredentialsError | boto.PartialCredentialsError):
        return ConfigError(doing, cause, f"Set both {_KEYS}, or neither and give the machine a role")
    if isinstance(error, boto.CredentialRetrievalError | boto.MetadataRetrievalError):
        return RetryableError(doing, cause, f"Check the role given to this machine, or set {_KEYS}")
    if isinstance(error, boto.ParamValidationError | boto.InvalidRegionError):
        return ConfigError(doing, cause, _ADDRESS_HINT)
    return FatalError(doing, cause, "Check the AWS_ variables and the AWS configuration files")


def _from_answer(error: boto.ClientError, doing: str, bucket: str, keys: str, *, fixed_token: bool) -> ConnectorError:
    """Translates errors that the store has reported."""
    details = error.response.get("Error", {})
    code, status = error_code(error), status_of(error)
    message = one_line(details.get("Message") or "")
    headers = error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    cause = f"{message} ({code})" if message else f"HTTP {status}"
    # For an answer without an S3 error document, boto3 returns the HTTP status as the code.
    general_hint = PROXY_HINT if code.isdigit() else f"Look up {code} in the documentation of the store"
    if code == "ExpiredToken" and fixed_token:
        return FatalError(doing, cause, "Set AWS_SESSION_TOKEN and the keys issued with it again, then restart")
    if refusal := _RULES.error(code, status, doing, cause, PROXY_HINT if code.isdigit() else "", headers):
        return refusal
    if code in _WRONG_REGION or status in _REDIRECTS:
        region = headers.get("x-amz-bucket-region") or str(details.get("Region", ""))
        hint = f"The bucket is in {region}: set AWS_REGION={region}" if region else _ADDRESS_HINT
        return ConfigError(doing, cause, hint)
    if code == "NoSuchKey" and error.operation_name.startswith("ListObjects"):  # the store used the bucket as a key
        return ConfigError(doing, cause, _BUCKET_IN_ADDRESS)
    if error.operation_name == "AssumeRole":
        return RetryableError(doing, cause, _TRUST_HINT)
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        missing = _missing_right(error.operation_name, message, bucket, keys)
        return FatalError(doing, cause, f"Allow {missing} for these keys or this role, or check {_KEYS}")
    return FatalError(doing, cause, general_hint)


def _of_lent_key(error: boto.ClientError, refusal: ConnectorError, bucket: str, keys: str) -> ConnectorError:
    if error_code(error) in REVOKED:
        return RetryableError(refusal.doing, refusal.cause, _LENT_HINT)
    if type(refusal) is FatalError and status_of(error) == HTTPStatus.FORBIDDEN:
        missing = _missing_right(error.operation_name, refusal.cause, bucket, keys)
        return FatalError(refusal.doing, refusal.cause, f"Let the Iceberg catalog issue keys with {missing}")
    return refusal


def _missing_right(operation: str, message: str, bucket: str, keys: str) -> str:
    """Returns the missing right and its resource, from the answer or derived from the operation."""
    if named := _NAMED_RIGHT.search(message):
        return named[1]
    right = _RIGHTS.get(operation, f"s3:{operation}")
    return f"{right} on arn:aws:s3:::{bucket}{'' if right in _OF_THE_BUCKET else f'/{keys}'}"


def _reason(error: boto.ConnectionError | boto.HTTPClientError) -> str:
    """Returns the network's message. botocore's message is equal for a refused connection and an unknown name."""
    if type(error) is boto.HTTPClientError:  # may wrap an error that quotes a header with a token
        return f"the request could not be sent ({type(error.kwargs.get('error')).__name__})"
    if isinstance(error, boto.ProxyConnectionError):  # the message hides a password only after http:// and https://
        return re.sub(r'[^\s"]+@', "***@", one_line(str(error)))
    if isinstance(error, boto.EndpointConnectionError):
        return f"{one_line(str(error))}: {last_words(error.kwargs['error'])}"
    return one_line(str(error))
