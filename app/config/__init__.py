"""The environment → one frozen ``Settings``; all wrong variables are reported at once."""
