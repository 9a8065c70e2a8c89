"""Make ``scripted.gguf.gz``, the same bytes on every run: ``python tests/servers/make_tiny_gguf.py``.

Needs ``gguf==0.19.0`` and ``numpy``, which nothing else here needs.

The model is a llama of one layer with a SentencePiece vocabulary, byte fallback and a chat template.
Its weights are constructed, so that any llama.cpp speaks a fixed script by its ordinary forward pass:

* The embedding of a token is a one-hot, and each row of the output matrix reads the one-hots of the
  tokens before it. Greedy decoding thereby walks a table of successors.
* Attention is uniform (Q = K = 0), so its one useful head says which markers the prompt holds.
* One SwiGLU unit per marker computes "the last token is ``<|assistant|>``, and this marker was
  seen", and chooses the first token of that marker's script.

Logits lie 45 apart, far beyond what processors, thread counts and versions change.
"""

# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import gzip
import hashlib
import tempfile
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
from gguf import GGUFWriter, TokenType

Matrix: TypeAlias = npt.NDArray[np.float32]
Alternatives: TypeAlias = tuple[str | bytes, ...]
"""Tokens that follow one another, or that are equally likely but for a trace; bytes are raw ones."""

SHA256: Final = "3f796171f6c7c4c6ee874f11bb66fcd0a829577b2795d48cd86565a3103c29f3"
PACKED: Final = Path(__file__).parent / "scripted.gguf.gz"

UNKNOWN, BEGIN, END = 0, 1, 2
ASSISTANT: Final = "<|assistant|>"
TOOL_TURN: Final = "<|tool|>"
CONTROL: Final = ("<|system|>", "<|user|>", ASSISTANT, TOOL_TURN, "<|end|>")

CONTEXT, WIDTH, HEADS, HEAD_WIDTH, FEED_FORWARD = 4096, 512, 8, 64, 32
LOGIT: Final = 2.0
"""Times the square root of the width: how far the chosen logit is above the others."""
DICE_STEP: Final = 0.005
"""How much less likely each side of the dice is than the one before."""


def one_each(*tokens: str | bytes) -> tuple[Alternatives, ...]:
    return tuple((token,) for token in tokens)


def raw(text: str) -> list[bytes]:
    return [bytes([byte]) for byte in text.encode()]


# A token has one successor, so no two scripts can share one.
DEFAULT: Final = one_each("Hello", " from", " the", " tiny", " test", " model", ".", " All", " is", " well.")
SCRIPTS: Final = {
    "#tool": one_each(
        "<tool_call>",
        '\n{"name":',
        ' "get_weather",',
        ' "arguments":',
        ' {"city":',
        ' "Paris"}',
        "}\n",
        "</tool_call>",
    ),
    TOOL_TURN: one_each("It", " is 18 C", " and", " sunny", " in", " Paris", " today."),
    "#json": one_each('{"answer":', " 42", ', "ok"', ": true", "}"),
    "#unicode": one_each("Caf", *raw("é"), " yes ", *raw("🙂日")),
    "#think": one_each("<think>", "Let me", " check", " that", "</think>", "The answer", " is 42."),
    "#forever": one_each(" tick", " tock"),
    "#dice": (("You",), (" rolled",), (" one", " two", " three", " four", " five", " six"), ("!",)),
}
ENDLESS: Final = {"#forever"}
# The markers of earlier turns stay in the prompt; the result of a tool has to win over all of them.
WEIGHT: Final = {TOOL_TURN: 1000.0}

TEMPLATE: Final = (
    "{%- if tools %}<|system|>\nTools: {{ tools | tojson }}\n"
    'Call one as <tool_call>\n{"name": ..., "arguments": ...}\n</tool_call><|end|>\n{%- endif %}'
    "{%- for m in messages %}"
    "<|{{ m['role'] if m['role'] in ['system', 'user', 'assistant', 'tool'] else 'user' }}|>\n"
    "{%- if m['reasoning_content'] %}<think>{{ m['reasoning_content'] }}</think>{%- endif %}"
    "{%- if m['content'] is string %}{{ m['content'] }}{%- endif %}"
    "{%- if m['tool_calls'] %}{%- for c in m['tool_calls'] %}"
    "<tool_call>\n"
    "{\"name\": \"{{ c['function']['name'] }}\", \"arguments\": {{ c['function']['arguments'] | tojson }}}"
    "\n</tool_call>"
    "{%- endfor %}{%- endif %}<|end|>\n"
    "{%- endfor %}{%- if add_generation_prompt %}<|assistant|>{%- endif %}"
)


class Vocabulary:
    """The tokens, in the order of their numbers."""

    def __init__(self) -> None:
        self.kinds = {"<unk>": TokenType.UNKNOWN, "<s>": TokenType.CONTROL, "</s>": TokenType.CONTROL}
        self.kinds |= {f"<0x{byte:02X}>": TokenType.BYTE for byte in range(256)}
        self.kinds |= dict.fromkeys(CONTROL, TokenType.CONTROL)
        self.kinds |= {marker: TokenType.USER_DEFINED for marker in SCRIPTS if marker not in CONTROL}
        for script in (DEFAULT, *SCRIPTS.values()):
            for token in (token for alternatives in script for token in alternatives):
                if isinstance(token, str):
                    self._add(token)
        for letter in map(chr, range(32, 127)):
            if _spelt(letter) not in self.kinds:
                self._add(letter)
        self._numbers = {token: number for number, token in enumerate(self.kinds)}

    def _add(self, token: str) -> None:
        assert _spelt(token) not in self.kinds, f"{token!r} is in two scripts"
        self.kinds[_spelt(token)] = TokenType.NORMAL

    def number(self, token: str | bytes) -> int:
        return self._numbers[f"<0x{token[0]:02X}>" if isinstance(token, bytes) else _spelt(token)]

    def __len__(self) -> int:
        return len(self.kinds)


def _spelt(token: str) -> str:
    """As SentencePiece writes it."""
    return token.replace(" ", "\u2581")


@dataclass(frozen=True, slots=True)
class Weights:
    embedding: Matrix
    layer: dict[str, Matrix]
    output: Matrix


def weights(vocabulary: Vocabulary) -> Weights:
    size = len(vocabulary)
    embedding, output = _zeros(size, WIDTH), _zeros(size, WIDTH)
    np.fill_diagonal(embedding, 1.0)
    layer = {
        "attn_norm": np.ones(WIDTH, np.float32),
        "attn_q": _zeros(HEADS * HEAD_WIDTH, WIDTH),
        "attn_k": _zeros(HEAD_WIDTH, WIDTH),
        "attn_v": _zeros(HEAD_WIDTH, WIDTH),
        "attn_output": _zeros(WIDTH, HEADS * HEAD_WIDTH),
        "ffn_norm": np.ones(WIDTH, np.float32),
        "ffn_gate": _zeros(FEED_FORWARD, WIDTH),
        "ffn_up": _zeros(FEED_FORWARD, WIDTH),
        "ffn_down": _zeros(WIDTH, FEED_FORWARD),
    }
    for token, followers in _followers(vocabulary).items():
        for place, follower in enumerate(followers):
            output[follower, token] = LOGIT * (1 - DICE_STEP * place)
    # Behind the one-hots of the tokens: "this marker was seen", then "its script starts now".
    seen, starts = size, size + len(SCRIPTS)
    assert starts + len(SCRIPTS) <= WIDTH, "the width does not hold the vocabulary"
    for unit, (marker, script) in enumerate(SCRIPTS.items()):
        layer["attn_v"][unit, vocabulary.number(marker)] = 1.0
        layer["attn_output"][seen + unit, unit] = 0.01
        layer["ffn_gate"][unit, vocabulary.number(ASSISTANT)] = 100.0
        layer["ffn_up"][unit, seen + unit] = 1.0
        layer["ffn_down"][starts + unit, unit] = 100.0 * WEIGHT.get(marker, 1.0)
        output[vocabulary.number(script[0][0]), starts + unit] = LOGIT
    return Weights(embedding, layer, output)


def _followers(vocabulary: Vocabulary) -> dict[int, tuple[int, ...]]:
    """What may come after each token, the likeliest first; after all that no script names, the end."""
    followers: dict[int, tuple[int, ...]] = dict.fromkeys(range(len(vocabulary)), (END,))
    spoken = [(None, ((ASSISTANT,), *DEFAULT)), *SCRIPTS.items()]
    for marker, script in spoken:
        numbers = [tuple(vocabulary.number(token) for token in alternatives) for alternatives in script]
        if marker in ENDLESS:
            numbers.append(numbers[0])
        for before, after in pairwise(numbers):
            followers |= dict.fromkeys(before, after)
    return followers


def _zeros(*shape: int) -> Matrix:
    return np.zeros(shape, np.float32)


def write_model(file: Path) -> None:
    vocabulary = Vocabulary()
    model = weights(vocabulary)
    writer = GGUFWriter(file, "llama")
    writer.add_name("cortex-tiny-scripted")
    writer.add_vocab_size(len(vocabulary))
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(1)
    writer.add_rope_dimension_count(HEAD_WIDTH)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_file_type(0)
    _write_vocabulary(writer, vocabulary)
    writer.add_chat_template(TEMPLATE)
    writer.add_tensor("token_embd.weight", model.embedding)
    for name, matrix in model.layer.items():
        writer.add_tensor(f"blk.0.{name}.weight", matrix)
    writer.add_tensor("output_norm.weight", np.ones(WIDTH, np.float32))
    writer.add_tensor("output.weight", model.output)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _write_vocabulary(writer: GGUFWriter, vocabulary: Vocabulary) -> None:
    kinds = vocabulary.kinds.values()
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([token.encode() for token in vocabulary.kinds])
    writer.add_token_scores(
        [-float(number) if kind == TokenType.NORMAL else 0.0 for number, kind in enumerate(kinds)]
    )
    writer.add_token_types([int(kind) for kind in kinds])
    writer.add_unk_token_id(UNKNOWN)
    writer.add_bos_token_id(BEGIN)
    writer.add_eos_token_id(END)
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(False)
    writer.add_add_space_prefix(False)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / PACKED.stem
        write_model(file)
        data = file.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    assert digest == SHA256, f"another model: {digest}"
    PACKED.write_bytes(gzip.compress(data, compresslevel=9, mtime=0))


if __name__ == "__main__":
    main()
