"""Converts the environment into one frozen ``Settings``, and reports all wrong variables together."""
