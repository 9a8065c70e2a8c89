"""What a model does, and whether two answers, recordings or roads do the same (ADR 20)."""
