"""Stream timeouts: timers for each key, events for silent keys, and the observer of the sink."""
