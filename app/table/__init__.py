"""What the table is: its keys and file names, its schema and location, and whether the settings fit it."""
