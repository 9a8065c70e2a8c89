"""What a store asks of git: who merges its index, what is staged, what was there before."""
