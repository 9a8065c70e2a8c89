"""One run: what it asks, where it records, and what a command behind it finds in its environment."""
