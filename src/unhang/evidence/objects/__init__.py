"""Evidence behind a URL, read where it is through fsspec: what there is, and its bytes by ranges."""
