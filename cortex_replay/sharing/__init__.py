"""A store and its remote: what goes to the bucket, comes back, stands where, and may be deleted."""
