"""The environment variables of the store and of the credentials for the store."""

from pkgutil import resolve_name
from typing import Annotated, Literal

from pydantic import BeforeValidator

from app.config import parsers as parse
from app.config.fields import Area, Contradictions, checked, env
from app.parts import PLATFORM_STORE

ServerSideEncryption = Literal["AES256", "aws:kms"]
Name = Annotated[str | None, BeforeValidator(parse.name)]
Url = Annotated[str | None, BeforeValidator(parse.http_url)]


class Store(Area):
    """The store. If a store is not used, its variables are not checked for contradictions."""

    # Injected by Quix Cloud
    workspace_id: Name = env("Quix__Workspace__Id")
    """Id of the workspace, which is the first folder in the blob storage of Quix."""

    s3_bucket: Annotated[str | None, BeforeValidator(parse.bucket)] = env("S3_BUCKET")
    """S3 bucket to write to. For another store, set `STORAGE_URL` instead. If `S3_BUCKET` and `STORAGE_URL` are empty:
    the blob storage that Quix binds to the deployment.
    """
    storage_url: Annotated[str | None, BeforeValidator(parse.storage_url)] = env("STORAGE_URL")
    """Address of the store: `s3://bucket`, `gs://bucket`, `az://container` or `file:///folder`."""
    platform_connection: str | None = env("Quix__BlobStorage__Connection__Json", secret=True)
    """Blob storage bound to the deployment. Used if you set no store. If no region is given, `AWS_REGION` is used."""
    create_bucket: bool = env("CREATE_BUCKET", False)
    """Create the bucket if it is missing. Only for stores with the S3 protocol, and on AWS only in `us-east-1`."""
    s3_prefix: Annotated[str | None, BeforeValidator(parse.prefix)] = env("S3_PREFIX")
    """Path of the tables in the store. Empty: `data`. In the blob storage of Quix: `data-lake/time-series`."""

    # S3
    aws_access_key_id: str | None = env("AWS_ACCESS_KEY_ID", secret=True)
    """Access key. Empty: boto3 uses a role or profile of the machine."""
    aws_secret_access_key: str | None = env("AWS_SECRET_ACCESS_KEY", secret=True, needed_with="AWS_ACCESS_KEY_ID")
    """Secret access key."""
    aws_session_token: str | None = env("AWS_SESSION_TOKEN", secret=True, only_with="AWS_ACCESS_KEY_ID")
    """Session token of a temporary access key."""
    s3_role_arn: Annotated[str | None, BeforeValidator(parse.role_arn)] = env("S3_ROLE_ARN")
    """ARN of a role to assume for the store, of any account, such as `arn:aws:iam::123456789012:role/lake`."""
    s3_role_external_id: Annotated[str | None, BeforeValidator(parse.external_id)] = env(
        "S3_ROLE_EXTERNAL_ID", only_with="S3_ROLE_ARN"
    )
    """External id that the trust policy of the role requires."""
    aws_endpoint_url: Url = env("AWS_ENDPOINT_URL")
    """Address of an S3 store other than AWS, such as `http://minio.example.com:9000`."""
    aws_endpoint_url_sts: Url = env("AWS_ENDPOINT_URL_STS")
    """Address of the token service for roles (STS). Empty: AWS's, or with another store the store's own address."""
    aws_region: Annotated[str, BeforeValidator(parse.other_region)] = env("AWS_REGION", "us-east-1")
    """Region of the bucket. If `AWS_ENDPOINT_URL` is set, any name is allowed."""
    s3_sse: ServerSideEncryption | None = env("S3_SSE")
    """Server-side encryption to request from the S3 store. Empty: the bucket's default."""
    s3_sse_kms_key_id: str | None = env("S3_SSE_KMS_KEY_ID", only_with="S3_SSE=aws:kms")
    """Id or ARN of the encryption key for `aws:kms`. Empty: the account's default encryption key for S3."""

    # Google Cloud Storage
    gcs_credentials_json: str | None = env("GCS_CREDENTIALS_JSON", secret=True)
    """Key file of a Google service account, as the complete JSON text. Empty: the file in
    `GOOGLE_APPLICATION_CREDENTIALS`, or the service account of the machine.
    """

    # Azure Blob Storage
    azure_storage_connection_string: str | None = env("AZURE_STORAGE_CONNECTION_STRING", secret=True)
    """Connection string of a storage account, instead of the other variables of Azure."""
    azure_storage_account: Annotated[str | None, BeforeValidator(parse.storage_account)] = env("AZURE_STORAGE_ACCOUNT")
    """Name of the storage account."""
    azure_storage_key: str | None = env("AZURE_STORAGE_KEY", secret=True)
    """Access key of the storage account. Without an access key or SAS token: managed identity or workload identity."""
    azure_storage_sas_token: str | None = env("AZURE_STORAGE_SAS_TOKEN", secret=True)
    """SAS token for the account or container, instead of the access key."""
    azure_endpoint_url: Url = env("AZURE_ENDPOINT_URL")
    """Address of an account outside public Azure, such as `https://account.blob.core.chinacloudapi.cn`."""

    @property
    def uses_platform_storage(self) -> bool:
        """Whether the platform's store is used, because the user has set no store."""
        return self.s3_bucket is None and self.storage_url is None

    def contradictions(self) -> Contradictions:
        yield from super().contradictions()
        scheme = self.storage_url.partition("://")[0] if self.storage_url else None
        if self.s3_bucket:
            yield from self.refuse("must not be set together with S3_BUCKET: set only one of them", "STORAGE_URL")
        elif scheme is None:
            yield from self._contradictions_of_platform_storage()
        elif scheme == "az":
            yield from self._contradictions_of_azure()
        if self.aws_endpoint_url is None:
            yield from checked("AWS_REGION", parse.aws_region, self.aws_region)
        if scheme not in {"s3", None}:
            yield from self.refuse("is only for S3: it has no effect on this STORAGE_URL", "S3_SSE", "S3_ROLE_ARN")

    def _contradictions_of_platform_storage(self) -> Contradictions:
        if self.platform_connection is None:
            yield (
                "S3_BUCKET",
                "must be set to the name of a bucket, or STORAGE_URL to s3://bucket, gs://bucket, az://container or "
                "file:///folder; on Quix Cloud the deployment can be bound to the blob storage instead",
            )
            return
        connection = "Quix__BlobStorage__Connection__Json"
        for variable, problem in checked(connection, resolve_name(PLATFORM_STORE), self.platform_connection):
            yield variable, f"{problem}; or set S3_BUCKET or STORAGE_URL"
        yield from self.refuse(
            "is for your own store: set S3_BUCKET or STORAGE_URL as well, or leave this empty to use the storage of "
            "Quix__BlobStorage__Connection__Json",
            "AWS_ACCESS_KEY_ID",
            "AWS_ENDPOINT_URL",
            "AWS_SESSION_TOKEN",
            "S3_ROLE_ARN",
            "GCS_CREDENTIALS_JSON",
            "AZURE_STORAGE_CONNECTION_STRING",
            "AZURE_STORAGE_ACCOUNT",
        )

    def _contradictions_of_azure(self) -> Contradictions:
        if self.azure_storage_connection_string:
            yield from self.refuse(
                "must not be set together with AZURE_STORAGE_CONNECTION_STRING, which contains address and credentials",
                "AZURE_STORAGE_ACCOUNT",
                "AZURE_STORAGE_KEY",
                "AZURE_STORAGE_SAS_TOKEN",
                "AZURE_ENDPOINT_URL",
            )
        elif self.azure_storage_account is None:
            problem = "must be set with this STORAGE_URL, or AZURE_STORAGE_CONNECTION_STRING instead"
            yield "AZURE_STORAGE_ACCOUNT", problem
        if self.azure_storage_key:
            yield from self.refuse(
                "must not be set together with AZURE_STORAGE_KEY: set only one of them", "AZURE_STORAGE_SAS_TOKEN"
            )
