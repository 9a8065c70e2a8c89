"""The Model Context Protocol as plain values: messages, what a call is found by, and what a recording of one
holds. No sockets, no processes."""
