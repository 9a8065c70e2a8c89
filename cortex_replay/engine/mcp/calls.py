"""What a client said in a session, and what has come of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from cortex_replay.engine.mcp.past import Deed
from cortex_replay.engine.mcp.playback import Playback
from cortex_replay.engine.mcp.turns import CallTurn
from cortex_replay.mcp.messages import Message, RequestId, parameters_of, progress_token, request_id
from cortex_replay.mcp.questions import name_call
from cortex_replay.mcp.scripts import Script

__all__ = ["Call"]


@dataclass(slots=True, eq=False)
class Call:
    """A request or a notification of the client."""

    frame: bytes
    message: Message
    id: RequestId | None = None
    """``None`` for a notification."""
    script: Script = field(default_factory=Script)
    """What a server says to it."""
    turn: CallTurn | None = None
    """``None`` where nothing is recorded, and nothing is to be."""
    playback: Playback | None = None
    """What plays its recording, if it has one."""
    deed: Deed | None = None
    """What is remembered of it for a server that is started later."""
    is_sent: bool = False
    """Whether a server has got it."""
    is_kept: bool = False
    kept_bytes: int = 0
    """How much of the script is kept."""
    is_cut: bool = False
    """Whether it was said that the rest of the script is not."""

    @classmethod
    def of(cls, frame: bytes, message: Message) -> Call:
        return cls(frame, message, request_id(message), Script(progress_token(message)))

    @property
    def method(self) -> str:
        return str(self.message["method"])

    def name(self, server: str) -> str:
        """As people name it: ``tool get-sum of server every``."""
        return name_call({"upstream": server, "path": self.method, "body": parameters_of(self.message)})
