"""``python main.py check``: tries everything that the connector needs, and says what to do where it fails."""
