"""Records that cannot be rows: the user's policy, the reasons, and the dead letter."""
