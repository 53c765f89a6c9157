"""The identity that this machine has in Entra ID. Imported only where neither key nor signature is set."""

from typing import Any

from azure.core.credentials import AccessToken
from azure.core.exceptions import ClientAuthenticationError
from azure.identity import DefaultAzureCredential


class MachineIdentity:
    """Gets tokens: from the environment, for a workload identity, a managed identity, or a user of the Azure CLI.

    What asks a person, or a tool that only developers have, is left out; the Azure CLI stays for local runs.
    """

    def __init__(self) -> None:
        self._credential = DefaultAzureCredential(
            exclude_shared_token_cache_credential=True,
            exclude_visual_studio_code_credential=True,
            exclude_developer_cli_credential=True,
            exclude_powershell_credential=True,
            exclude_broker_credential=True,
        )

    def get_token(self, *scopes: str, **options: Any) -> AccessToken:
        """A token that is still valid, as ``azure.core.credentials.TokenCredential`` has it."""
        try:
            return self._credential.get_token(*scopes, **options)
        except (ValueError, OSError) as error:  # of an identity service that is away, or answers with a web page
            raise ClientAuthenticationError(f"the identity service of this machine fails: {error}") from error
        except ClientAuthenticationError as error:  # with the answer of that service, which is not the store's
            raise ClientAuthenticationError(error.message) from error
