"""Why nothing matched: the nearest recording, what differs from it, and what to do."""
