"""The table of these tests."""

from tests.unit.commands.compact.lake import lake

__all__ = ["lake"]
