"""``INDEX.toml``, in one file or with shards: its grammar, its rows, and how they are looked up."""
