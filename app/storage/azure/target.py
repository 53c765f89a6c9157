"""The address of a container and the access to it. No SDK is imported: settings are read before one is loaded."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class AzureTarget:
    """A container of Azure Blob Storage.

    Attributes:
        container: the container's name.
        account: the storage account's name; not needed where ``endpoint_url`` or ``connection_string`` has it.
        endpoint_url: the address of the account's blob service, where it is not ``<account>.blob.core.windows.net``.
        connection_string: as the portal shows it; everything else is taken from it then.
        key: one of the account's keys.
        sas_token: a shared access signature. Without it and without a key, an identity of this machine is looked for:
            environment, workload identity, managed identity, the Azure CLI.
        may_create: whether to create a missing container.
    """

    container: str
    account: str | None = None
    endpoint_url: str | None = None
    connection_string: str | None = field(default=None, repr=False)
    key: str | None = field(default=None, repr=False)
    sas_token: str | None = field(default=None, repr=False)
    may_create: bool = False

    @property
    def uri(self) -> str:
        """``az://container``; which account it is in, readers know from their own settings."""
        return f"az://{self.container}"
