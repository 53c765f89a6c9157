"""The way to a service is tried with the catalog of Quix."""

from tests.unit.parts.quix.conftest import catalog, server  # noqa: F401 - fixtures
