"""What the page shows, as documents: plain JSON with the shapes of :mod:`cortex_replay.view.shapes`."""
