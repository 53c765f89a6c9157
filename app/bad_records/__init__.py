"""Handles records that cannot become rows: the user's policy, the reasons, and the dead letter."""
