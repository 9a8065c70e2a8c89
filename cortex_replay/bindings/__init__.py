"""What changes with the surroundings of a run, and what stands for it in a recording.

A *binding* is a name for such a value: the working directory, today's date, an id that a program made up.
A recording holds a placeholder in its place, and replay fills in the value of today. Pure values and texts;
`docs/bindings.md` describes them for users, `docs/adr/0013-bound-values.md` the decisions.
"""

from cortex_replay.bindings.binder import Binder, Bound
from cortex_replay.bindings.placeholders import Filling
from cortex_replay.bindings.rules import BindingRules, PlaceRule
from cortex_replay.bindings.surroundings import NOWHERE, Surroundings

__all__ = ["NOWHERE", "Binder", "BindingRules", "Bound", "Filling", "PlaceRule", "Surroundings"]
