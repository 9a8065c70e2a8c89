"""What a call is answered with: from the store, or from its provider while it is recorded."""
