"""The shapes of the documents that the page shows: the one contract between Python and the page's modules.

Names of documents: ``store``, ``texts`` (only in a file; a live page asks ``search?q=…``), ``stories/ID``,
``calls/ID``, ``raw/ID``, ``change``, ``report``. All texts are redacted; the page makes them harmless.
"""

from __future__ import annotations

from cortex_replay.view.shapes.change import (
    ChangeDocument,
    ChangeItem,
    DifferenceDocument,
    DriftDocument,
    DriftItem,
    TierWord,
)
from cortex_replay.view.shapes.conversation import (
    AnswerDocument,
    CallDocument,
    RawDocument,
    StoryDocument,
    StoryStep,
    StreamDocument,
)
from cortex_replay.view.shapes.page import PageDocument, Screen, Spent
from cortex_replay.view.shapes.run import (
    DriftReport,
    MissRow,
    ProblemGroup,
    ReportDocument,
    RunReport,
    ServerRow,
    SweepCell,
    SweepReport,
    UnusedRow,
    VaryingRow,
    VerdictWord,
)
from cortex_replay.view.shapes.store import (
    CallRow,
    Found,
    ModelRow,
    RunRow,
    SearchDocument,
    StoreDocument,
    TextRow,
    TextsDocument,
)

__all__ = [
    "AnswerDocument",
    "CallDocument",
    "CallRow",
    "ChangeDocument",
    "ChangeItem",
    "DifferenceDocument",
    "DriftDocument",
    "DriftItem",
    "DriftReport",
    "Found",
    "MissRow",
    "ModelRow",
    "PageDocument",
    "ProblemGroup",
    "RawDocument",
    "ReportDocument",
    "RunReport",
    "RunRow",
    "Screen",
    "SearchDocument",
    "ServerRow",
    "Spent",
    "StoreDocument",
    "StoryDocument",
    "StoryStep",
    "StreamDocument",
    "SweepCell",
    "SweepReport",
    "TextRow",
    "TextsDocument",
    "TierWord",
    "UnusedRow",
    "VaryingRow",
    "VerdictWord",
]
