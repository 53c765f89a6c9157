"""Stream timeouts: a timer for each message key, events for silent message keys, and the observer of the sink."""
