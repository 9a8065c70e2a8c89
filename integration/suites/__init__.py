"""Public suites that others wrote, moved over as `docs/migrating.md` says, and held against vcrpy."""
