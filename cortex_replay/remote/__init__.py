"""Objects elsewhere: a bucket that holds the files of a store, and a cache of what was fetched from it.

It knows objects by their names and their BLAKE3, and nothing of fixtures.
"""

from cortex_replay.remote.remote import Problem, Remote, remote_for

__all__ = ["Problem", "Remote", "remote_for"]
