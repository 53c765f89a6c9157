"""One bucket or folder: put, list, read, write under a condition. One contract (``base``), one package per SDK."""
