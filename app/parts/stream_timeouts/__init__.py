"""Keys that stop sending: timers for each key, the events about them, and the observer of the sink."""
