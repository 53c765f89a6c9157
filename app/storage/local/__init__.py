"""A folder on this machine or on a mounted share."""
