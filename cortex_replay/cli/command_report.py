"""What is said of a command that ran behind a gateway: to a person, to a program and to a GitHub job."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from cortex_replay.cli import output
from cortex_replay.cli.options import DRIFT
from cortex_replay.cli.runs import tell_repeats
from cortex_replay.disk import write_file
from cortex_replay.engine.ledger import Ledger, Miss
from cortex_replay.engine.mcp.counts import server_facts, server_rows
from cortex_replay.errors import FixtureIntegrityFailed, NoFixture
from cortex_replay.gateway.proxy import ProxyRules
from cortex_replay.run import Run
from cortex_replay.run.step_summary import write_step_summary
from cortex_replay.store import Store

__all__ = ["report", "summarise", "tell_of_proxy", "tell_run", "verdict"]

_MOST_SHOWN: Final = 10


def report(document: dict[str, Any], flags: Mapping[str, Any]) -> bool:
    """Write and print what happened, where that is asked for; whether it could be written."""
    is_written = flags["report"] is None or _write_report(flags["report"], document)
    if flags["as_json"]:
        output.print_json(document, indent=None)
    return is_written


def _write_report(report: Path, document: dict[str, Any]) -> bool:
    try:
        write_file(report, (json.dumps(document, indent=2) + "\n").encode())
    except OSError as error:
        output.talk(f"error: the report cannot be written: {output.escape(str(error))}")
        return False
    return True


def verdict(ledger: Ledger, store: Store, fail_on: Sequence[str]) -> int:
    """The status of a run whose command was content."""
    if ledger.broken:
        output.talk("error: the store is not what its index says")
        return FixtureIntegrityFailed.exit_code
    if ledger.calls == 0:
        output.talk(
            "error: no call came to the gateway. Does the command call a model? Does its SDK read one of "
            "ANTHROPIC_BASE_URL, OPENAI_BASE_URL, OLLAMA_HOST? CORTEX_REPLAY_GATEWAY holds its URL, "
            "and --proxy reaches clients that read none of these. An MCP server comes to it where its "
            "configuration names `cortex-replay mcp NAME -- SERVER`."
        )
        return 1
    if "miss" in fail_on and (missing := ledger.missing_answers):
        output.talk(f"error: something was asked that is not recorded: {_names_of(missing)}")
        output.talk("The command got an error for it and ended well all the same; --allow-miss accepts that.")
        return NoFixture.exit_code
    if "live" in fail_on and (ledger.live or ledger.bypassed):
        output.talk("error: live calls were made")
        return DRIFT
    if "unused" in fail_on and (ledger.unused(store) or ledger.unused_calls(store)):
        if not ledger.servers:  # else they are named already
            _name_unused_calls(ledger, store)
        output.talk("error: some recordings are not used any more")
        return DRIFT
    return 1 if ledger.refused else 0


def _names_of(misses: Sequence[Miss]) -> str:
    """What was missed, each once."""
    counted = Counter(miss.what for miss in misses)
    names = [output.escape(what) + (f" ({n} times)" if n > 1 else "") for what, n in counted.items()]
    more = f" and {len(names) - _MOST_SHOWN} more" if len(names) > _MOST_SHOWN else ""
    return ", ".join(names[:_MOST_SHOWN]) + more


def tell_of_proxy(proxy: ProxyRules | None) -> None:
    """Who did not trust the proxy, and what went past it while something was recorded."""
    if proxy is None or proxy.models is None:
        return
    for host, count in proxy.distrusted.most_common(_MOST_SHOWN):
        output.talk(
            f"warning: {count} x the command did not accept our certificate for {output.escape(host)}: "
            "it takes its roots from elsewhere (docs/gateway.md, Clients without a base URL)"
        )
    if proxy.tunnelled:
        shown = ", ".join(output.escape(host) for host, _ in proxy.tunnelled.most_common(_MOST_SHOWN))
        more = len(proxy.tunnelled) - _MOST_SHOWN
        shown += f" and {more} more" if more > 0 else ""
        output.talk(f"note: not recorded, as no hosts of models: {shown} (--model-host NAME records one)")


def tell_run(run: Run) -> None:
    """The ledger, for a person."""
    ledger = run.ledger
    explained = _explanations(ledger)
    for explanation in explained[:_MOST_SHOWN]:
        output.talk(output.quote(explanation))
    if len(explained) > _MOST_SHOWN:
        output.talk(f"… and {len(explained) - _MOST_SHOWN} more questions that are not recorded")
    for reason in ledger.broken[:_MOST_SHOWN]:
        output.talk(f"refused: {output.escape(reason)}")
    for reason in [*ledger.refused, *ledger.failures][:_MOST_SHOWN]:
        output.talk(f"not recorded: {output.escape(reason)}")
    for reason in ledger.recorded_failures[:_MOST_SHOWN]:
        output.talk(f"recorded as a failure: {output.escape(reason)}")
    for host, count in ledger.bypassed.most_common(_MOST_SHOWN):
        output.talk(f"warning: refused {count} x {output.escape(host)}, a call around the gateway")
    tell_repeats(ledger)
    _tell_of_servers(ledger, run.store)
    output.talk("cortex-replay: " + ", ".join(_facts(ledger, run.store)))


def _tell_of_servers(ledger: Ledger, store: Store) -> None:
    """What MCP servers were asked, of the counts below; nothing of a run that asked none."""
    for text, count in ledger.remarks.most_common(_MOST_SHOWN):
        output.talk(f"note: {output.escape(text)}" + (f" ({count} times)" if count > 1 else ""))
    if ledger.servers:
        _name_unused_calls(ledger, store)
    for fact in server_facts(ledger.servers):
        output.talk(f"cortex-replay: MCP server {output.escape(fact)}")


def _name_unused_calls(ledger: Ledger, store: Store) -> None:
    unused = ledger.unused_calls(store)
    for call in unused[:_MOST_SHOWN]:
        output.talk(f"unused: {output.escape(call.path)}, {output.escape(f'{call.server} {call.what}')}")
    if len(unused) > _MOST_SHOWN:
        output.talk(f"… and {len(unused) - _MOST_SHOWN} more calls to MCP servers that are not used")


def _explanations(ledger: Ledger) -> list[str]:
    """Why there were misses, each reason once, and how often."""
    counted = Counter(miss.explanation for miss in ledger.misses)
    return [text if n == 1 else f"{text}\nIt was asked {n} times." for text, n in counted.items()]


def _facts(ledger: Ledger, store: Store) -> Iterator[str]:
    yield output.count(ledger.hits, "hit")
    yield f"{len(ledger.misses)} miss" + ("" if len(ledger.misses) == 1 else "es")
    yield f"{ledger.recorded} recorded"
    yield f"{ledger.live} live" + (f" ({ledger.failed} failed)" if ledger.failed else "")
    if ledger.declined:
        yield f"{ledger.declined} refused by policy"
    yield from ledger.token_facts()
    yield from map(output.escape, ledger.money_facts())
    yield f"{len(ledger.unused(store))} of {len(store.list(scoped=True))} fixtures unused"


def summarise(run: Run, status: int) -> None:
    """Write a table in the summary of a GitHub job."""
    ledger = run.ledger
    rows = {
        "mode": run.mode,
        "hits": ledger.hits,
        "misses": len(ledger.misses),
        "recorded": ledger.recorded,
        "live calls": ledger.live,
        "unused fixtures": len(ledger.unused(run.store)),
        **server_rows(ledger.servers),
        **({"unused calls to MCP servers": len(ledger.unused_calls(run.store))} if ledger.servers else {}),
        **ledger.cost_rows(),
        "command's status": status,
    }
    write_step_summary(os.environ, "cortex-replay", rows, [*_explanations(ledger), *ledger.remarks])
