"""Variables of the store, and of the credentials for it."""

from typing import Annotated, Literal, TypeVar

from pydantic import SecretStr, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import NoDecode

from app.config import parsers as parse
from app.config.fields import env, option, parsed, together
from app.config.kafka import KafkaVariables
from app.config.platform_connection import parse_connection
from app.config.storage_url import StorageAddress, parse_storage_url

ServerSideEncryption = Literal["AES256", "aws:kms"]

_Value = TypeVar("_Value")


def _as_aws_writes_it(word: str) -> str:
    return word.upper() if word.upper() == "AES256" else word.lower()


class StoreVariables(KafkaVariables):
    """The store. Variables of stores that are not used are not compared with others."""

    # Injected by Quix Cloud
    workspace_id: Annotated[str | None, parsed(parse.name)] = env("Quix__Workspace__Id", None)

    s3_bucket: Annotated[str | None, parsed(parse.bucket)] = env("S3_BUCKET", None)
    storage_url: Annotated[StorageAddress | None, NoDecode, parsed(parse_storage_url)] = env("STORAGE_URL", None)
    platform_connection: SecretStr | None = env("Quix__BlobStorage__Connection__Json", None)
    create_bucket: Annotated[bool, parsed(parse.flag)] = env("CREATE_BUCKET", False)
    s3_prefix: Annotated[str | None, parsed(parse.prefix)] = env("S3_PREFIX", None)

    # S3
    aws_access_key_id: SecretStr | None = env("AWS_ACCESS_KEY_ID", None)
    aws_secret_access_key: SecretStr | None = env("AWS_SECRET_ACCESS_KEY", None)
    aws_session_token: SecretStr | None = env("AWS_SESSION_TOKEN", None)
    aws_endpoint_url: Annotated[str | None, parsed(parse.http_url)] = env("AWS_ENDPOINT_URL", None)
    aws_region: str = env("AWS_REGION", "us-east-1")
    s3_sse: Annotated[ServerSideEncryption | None, option(ServerSideEncryption, _as_aws_writes_it)] = env(
        "S3_SSE", None
    )
    s3_sse_kms_key_id: str | None = env("S3_SSE_KMS_KEY_ID", None)

    # Google Cloud Storage
    gcs_credentials_json: SecretStr | None = env("GCS_CREDENTIALS_JSON", None)

    # Azure Blob Storage
    azure_storage_connection_string: SecretStr | None = env("AZURE_STORAGE_CONNECTION_STRING", None)
    azure_storage_account: Annotated[str | None, parsed(parse.storage_account)] = env("AZURE_STORAGE_ACCOUNT", None)
    azure_storage_key: SecretStr | None = env("AZURE_STORAGE_KEY", None)
    azure_storage_sas_token: SecretStr | None = env("AZURE_STORAGE_SAS_TOKEN", None)
    azure_endpoint_url: Annotated[str | None, parsed(parse.http_url)] = env("AZURE_ENDPOINT_URL", None)

    @field_validator("storage_url")
    @classmethod
    def _one_store(cls, value: StorageAddress | None, info: ValidationInfo) -> StorageAddress | None:
        if value and info.data.get("s3_bucket"):
            raise ValueError("must not be set together with S3_BUCKET: one of the two names the store")
        return value

    @field_validator("platform_connection")
    @classmethod
    def _some_store(cls, value: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        if not _store_is_the_platforms(info):
            return value
        if value is None:
            raise PydanticCustomError(
                "no_store",
                "must be set to the name of a bucket, or STORAGE_URL to s3://bucket, gs://bucket, az://container or "
                "file:///folder; on Quix Cloud the deployment can be bound to the blob storage instead",
                {"variable": "S3_BUCKET"},
            )
        parse_connection(value.get_secret_value())
        return value

    @field_validator(
        "aws_access_key_id",
        "aws_endpoint_url",
        "aws_session_token",
        "gcs_credentials_json",
        "azure_storage_connection_string",
        "azure_storage_account",
    )
    @classmethod
    def _access_has_its_store(cls, value: _Value, info: ValidationInfo) -> _Value:
        if value and _store_is_the_platforms(info) and "platform_connection" in info.data:
            store = "S3_BUCKET" if str(info.field_name).startswith("aws_") else "STORAGE_URL"
            raise ValueError(
                f"is for a store of your own: set {store} as well, or leave this empty to use the platform's storage"
            )
        return value

    @field_validator("aws_secret_access_key")
    @classmethod
    def _secret_fits_key(cls, value: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        return together(value, info, "aws_access_key_id", "AWS_ACCESS_KEY_ID")

    @field_validator("aws_session_token")
    @classmethod
    def _session_fits_key(cls, value: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        if value and "aws_access_key_id" in info.data and not info.data["aws_access_key_id"]:
            raise ValueError("has no effect without AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
        return value

    @field_validator("aws_region")
    @classmethod
    def _region_fits_store(cls, value: str, info: ValidationInfo) -> str:
        on_aws = "aws_endpoint_url" in info.data and not info.data["aws_endpoint_url"]
        return parse.aws_region(value) if on_aws else parse.other_region(value)

    @field_validator("s3_sse")
    @classmethod
    def _encryption_has_its_store(cls, value: str | None, info: ValidationInfo) -> str | None:
        address = info.data.get("storage_url")
        if value and address and address.scheme != "s3":
            raise ValueError("is for S3 alone: this STORAGE_URL would be written to without it")
        return value

    @field_validator("s3_sse_kms_key_id")
    @classmethod
    def _key_fits_encryption(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value and "s3_sse" in info.data and info.data["s3_sse"] != "aws:kms":
            raise ValueError("needs S3_SSE to be aws:kms")
        return value

    @field_validator("gcs_credentials_json")
    @classmethod
    def _credentials_can_be_read(cls, value: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        if value and _is_scheme(info, "gs"):
            parse.check_google_credentials(value.get_secret_value())
        return value

    @field_validator("azure_storage_account")
    @classmethod
    def _account_is_known(cls, value: str | None, info: ValidationInfo) -> str | None:
        by_string = info.data.get("azure_storage_connection_string")
        if _is_scheme(info, "az") and not by_string and value is None:
            raise ValueError("must be set with this STORAGE_URL, or AZURE_STORAGE_CONNECTION_STRING instead")
        return _beside_no_connection_string(value, info)

    @field_validator("azure_storage_key", "azure_endpoint_url")
    @classmethod
    def _access_fits_account(cls, value: _Value, info: ValidationInfo) -> _Value:
        return _beside_no_connection_string(value, info)

    @field_validator("azure_storage_sas_token")
    @classmethod
    def _one_way_in(cls, value: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        if value and _is_scheme(info, "az") and info.data.get("azure_storage_key"):
            raise ValueError("must not be set together with AZURE_STORAGE_KEY: one of the two is enough")
        return _beside_no_connection_string(value, info)


def _beside_no_connection_string(value: _Value, info: ValidationInfo) -> _Value:
    if value and _is_scheme(info, "az") and info.data.get("azure_storage_connection_string"):
        raise ValueError(
            "must not be set together with AZURE_STORAGE_CONNECTION_STRING, which holds address and credentials itself"
        )
    return value


def _is_scheme(info: ValidationInfo, scheme: str) -> bool:
    address = info.data.get("storage_url")
    return address is not None and address.scheme == scheme


def _store_is_the_platforms(info: ValidationInfo) -> bool:
    return all(store in info.data and info.data[store] is None for store in ("s3_bucket", "storage_url"))
