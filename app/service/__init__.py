"""The composition root: builds all parts from the settings, starts them in order, runs them, stops them in order."""
