"""The program that runs the dependency's own sink."""
