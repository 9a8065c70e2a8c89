"""``docs/cache.md`` has the facts as the package has them."""

from __future__ import annotations

from pathlib import Path

from cortex_replay.prompt.cache.facts import FACTS, Fact, FactName

PAGE = Path(__file__).parents[3] / "docs" / "cache.md"
WORDS: dict[FactName, str] = {
    "minimum": "shortest prefix, in tokens",
    "step": "found in steps of, in tokens",
    "markers": "markers in a request",
    "lookback": "positions from a marker back",
    "ttl": "an entry lives, in seconds",
    "ttl_5m": "an entry of five minutes lives, in seconds",
    "ttl_1h": "an entry of an hour lives, in seconds",
    "ttl_24h": "an entry with `24h` lives, in seconds",
    "ttl_explicit": "a cache made by a call lives, in seconds",
    "read": "price of a read token, in input tokens",
    "write_5m": "price of a written token, in input tokens",
    "write_1h": "price of a token written for an hour, in input tokens",
    "keeps_thinking": "thinking of earlier turns stays in the prompt (1) or not (0)",
    "rate": "calls a minute that one machine takes",
    "storage": "price of a million tokens for an hour, in dollars",
}
TITLES = {
    "https://platform.claude.com/docs/en/build-with-claude/prompt-caching": "Prompt caching",
    "https://platform.claude.com/docs/en/build-with-claude/thinking": "Thinking",
    "https://platform.claude.com/docs/en/about-claude/pricing": "Pricing",
    "https://developers.openai.com/api/docs/guides/prompt-caching": "Prompt caching",
    "https://developers.openai.com/api/docs/api-reference/responses/create": "Create a response",
    "https://developers.openai.com/api/docs/pricing": "Pricing",
    "https://ai.google.dev/gemini-api/docs/caching": "Context caching",
    "https://ai.google.dev/gemini-api/docs/pricing": "Pricing",
    "https://docs.cloud.google.com/gemini-enterprise-agent-platform/models/context-cache/"
    "context-cache-overview": "Context caching overview",
    "https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md": "llama.cpp server",
}


def test_the_page_has_the_table() -> None:
    """To mend it, put what this prints between the two comments."""
    text = PAGE.read_text(encoding="utf-8")
    found = text.partition("<!-- facts -->\n")[2].partition("<!-- end of facts -->")[0]

    assert found == table()


def table() -> str:
    lines = ["| provider | fact | number | models | day | source |", "|---|---|---|---|---|---|"]
    groups: dict[object, list[Fact]] = {}
    for row in FACTS:
        alike = (row.provider, row.name, row.value, row.source, row.page_date, row.note)
        groups.setdefault(alike, []).append(row)
    return "\n".join([*lines, *map(line, groups.values())]) + "\n"


def line(rows: list[Fact]) -> str:
    row = rows[0]
    models = ", ".join(f"`{one.model}`{' and later' * one.and_later}" for one in rows if one.model)
    note = f" ({row.note})" * bool(row.note)
    others = any(one.model for one in FACTS if (one.provider, one.name) == (row.provider, row.name))
    cells = [
        row.provider,
        WORDS[row.name] + note,
        f"{row.value:,g}",
        models or "all others" if others else "all",
    ]
    return f"| {' | '.join([*cells, row.page_date, f'[{TITLES[row.source]}]({row.source})'])} |"
