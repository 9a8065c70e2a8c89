"""Where the markers of a run should stand, and which one change to its prompts saves most."""
