"""GitHub and GitLab, as a job of theirs sees them: which request is reviewed, and our comment on it."""
