"""Where the files go. One module per backend, one behaviour (``base.ObjectStore``) for all."""
