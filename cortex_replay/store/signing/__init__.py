"""Signed indexes: the chain of what was signed, who signed it, and receipts."""
