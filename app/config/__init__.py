"""Converts environment variables into one frozen ``Settings`` object, and reports all wrong variables together."""
