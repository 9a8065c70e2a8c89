"""What a store's recordings say of the calls that were made: in which order, when, and what was counted."""
