"""The composition root: creates all parts from the settings, starts them in order, and stops them in reverse order."""
