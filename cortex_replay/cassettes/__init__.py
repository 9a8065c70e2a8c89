"""Cassettes of vcrpy and pytest-recording, taken over into a store.

What is read here was written by anybody: documents are read without the power to make anything but texts,
numbers, lists and objects, and within limits. No cassette is ever changed.
"""

from cortex_replay.cassettes.importing import Importer, open_dry_run
from cortex_replay.cassettes.places import Places
from cortex_replay.cassettes.report import ImportReport, Omission
from cortex_replay.cassettes.scopes import CassetteScopes

__all__ = ["CassetteScopes", "ImportReport", "Importer", "Omission", "Places", "open_dry_run"]
