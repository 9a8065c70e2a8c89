"""The model that the real servers serve: 1 layer, 4 MB, and it says what its script says.

Its weights are constructed (``make_tiny_gguf.py``), so an ordinary forward pass walks fixed text.
A marker anywhere in the prompt, earlier turns too, chooses which:

=============================  =============================================================
in the prompt                  answer
=============================  =============================================================
(anything else)                ``Hello from the tiny test model. All is well.``
``#tool``, with tools offered  a call ``get_weather {"city": "Paris"}``
a turn of the role ``tool``    ``It is 18 C and sunny in Paris today.``
``#json``                      ``{"answer": 42, "ok": true}``
``#unicode``                   ``Café yes 🙂日``, in tokens of one byte each
``#think``                     reasoning ``Let me check that``, then ``The answer is 42.``
``#forever``                   ``tick tock tick tock ...`` up to the limit of tokens
``#dice``                      ``You rolled one!``; at temperature 1 the seed throws the dice
=============================  =============================================================
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from pathlib import Path
from typing import Final

__all__ = ["MODEL", "MODELFILE", "unpack"]

MODEL: Final = "tiny"
"""The name under which every server serves it."""
MODELFILE: Final = Path(__file__).parent / "Modelfile"
"""What Ollama makes of it; expects the unpacked file beside itself."""
_PACKED: Final = Path(__file__).parent / "scripted.gguf.gz"


def unpack(directory: Path, words: Mapping[str, str] | None = None) -> Path:
    """The model as a file in a folder.

    Args:
        directory: The folder.
        words: What another model says instead: for a token of a script, one of the same length.
    """
    file, data = directory / _PACKED.stem, gzip.decompress(_PACKED.read_bytes())
    for token, other in (words or {}).items():
        before, after = _stored(token), _stored(other)
        assert (data.count(before), len(before)) == (1, len(after)), f"{token!r} cannot become {other!r}"
        data = data.replace(before, after)
    file.write_bytes(data)
    return file


def _stored(token: str) -> bytes:
    """A token as the file has it: its length, and what SentencePiece writes."""
    spelt = token.replace(" ", "\u2581").encode()
    return len(spelt).to_bytes(8, "little") + spelt
