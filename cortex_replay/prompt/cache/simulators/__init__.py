"""The caches of the providers, each by its own rules, and the trees of prompts that they search."""
