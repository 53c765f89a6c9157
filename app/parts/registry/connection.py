"""Creates a client for the schema registry in the settings, with Confluent's API or the API of AWS Glue."""

from pathlib import Path

from app.config.parsers import is_pem
from app.config.settings import Settings
from app.parts.http.rest_client import Credentials, RestClient
from app.parts.registry.schema_registry import SERVICE, SchemaRegistry


def new_registry(settings: Settings, scratch: Path) -> SchemaRegistry:
    """Return the schema registry. If a certificate is a text in the settings, write a file into the scratch folder."""

    def file(name: str, pem: str | None) -> str | None:
        if pem is None or not is_pem(pem):
            return pem
        path = scratch / f"registry-{name}.pem"
        path.touch(mode=0o600)
        path.write_text(pem)
        return str(path)

    url = str(settings.registry_url)
    if url.startswith("glue://"):
        from app.parts.registry.glue_client import GlueClient  # noqa: PLC0415 - only this registry needs boto3

        own = settings.registry_username, settings.registry_password, None
        of_store = settings.aws_access_key_id, settings.aws_secret_access_key, settings.aws_session_token
        client = GlueClient(url, own) if own[0] else GlueClient(url, of_store, settings.aws_endpoint_url)
        return SchemaRegistry(url, client, settings.topics[0])
    pems = settings.registry_ca, settings.registry_certificate, settings.registry_key
    files = map(file, ("ca", "certificate", "key"), pems)
    credentials = Credentials(settings.registry_token, settings.registry_username, settings.registry_password, *files)
    return SchemaRegistry(url, RestClient(SERVICE, url, credentials), f"{settings.topics[0]}-value")
