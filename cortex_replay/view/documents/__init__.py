"""What the page shows, as plain values: a module for each sort of document (:mod:`.shapes`)."""
