"""Where the files are made known. ``base.Catalog`` is the contract, ``quix`` the REST catalog of Quix."""
