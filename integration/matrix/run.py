"""Run every client by every road, and write down what came of it.

``python -m integration.matrix.run [CLIENT ...]`` writes ``docs/clients.json`` and the page made of it.
With names, only those clients run, and the rows of others stay.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, get_args

from cortex_replay.providers import PROVIDERS
from integration.matrix import install, page
from integration.matrix.clients import CLIENTS, HOSTS, UPSTREAMS, Client, Road
from integration.matrix.internet import start_internet
from integration.matrix.scripted import start_scripted
from integration.ollama import start_ollama
from tests.servers import tiny_model
from tests.servers.llamacpp import start_llamacpp

ROUNDS: Final = 20
ROOT: Final = Path(__file__).resolve().parents[2]
FOUND: Final = ROOT / "docs" / "clients.json"
PAGE: Final = ROOT / "docs" / "clients.md"
IN_PROCESS: Final = Path(__file__).parent / "in_process.py"
KEY: Final = "canary-of-the-matrix-alone"
OTHER: Final = "other-model:none"
SECONDS: Final = 240
MISSED: Final = re.compile(r"nothing is recorded for|NoFixture")
# What leads to a provider, or says how programs find their way: each run sets what it needs.
FOREIGN: Final = re.compile(
    "(?:ANTHROPIC|OPENAI|OLLAMA|GOOGLE|GEMINI|GROQ|MISTRAL|CO_API|AWS|HF_|CORTEX|LANGSMITH|LANGCHAIN|GITHUB_STEP)"
    "|(?:HTTPS?|ALL|NO)_PROXY$|NODE_USE_ENV_PROXY$|CI$",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class World:
    """What a recording finds: variables that lead to the servers, and the keys."""

    recording: Mapping[str, str]
    replaying: Mapping[str, str]


@dataclass(frozen=True)
class Ran:
    """What came of a run of a client."""

    status: int
    steps: list[dict[str, Any]]
    """What it told of its steps."""
    said: str
    """All that the client itself wrote, errors too."""
    ledger: dict[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("clients", nargs="*", help="LANGUAGE/NAME, or a part of it")
    chosen = parser.parse_args().clients
    clients = [one for word in chosen for one in CLIENTS if word in f"{one.language}/{one.name}"] or CLIENTS
    rows: list[dict[str, Any]] = []
    with world() as here:
        for client in clients:
            rows.append(row_of(client, here))
            write(rows, keep_others=bool(chosen))
    roads = [road for row in rows for road in row["roads"].values() if "not_tried" not in road]
    good = sum(not road["why"] for road in roads)
    sys.stdout.write(f"{good} of {len(roads)} roads are good; see {PAGE.relative_to(ROOT)}\n")
    return 0


def write(rows: Sequence[Mapping[str, Any]], *, keep_others: bool) -> None:
    """Write down what was found so far, beside what a run before has found of other clients."""
    former = json.loads(FOUND.read_text("utf-8"))["clients"] if keep_others and FOUND.exists() else []
    known = {(row["language"], row["name"]): row for row in [*former, *rows]}
    order = [(client.language, client.name) for client in CLIENTS]
    found = {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "python": platform.python_version(),
        "system": platform.system(),
        "rounds": ROUNDS,
        "clients": [known[one] for one in order if one in known],
        "not_run": ["/".join(one) for one in order if one not in known],
    }
    FOUND.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", "utf-8")
    PAGE.write_text(page.render(found), "utf-8")


@contextmanager
def world() -> Iterator[World]:
    """The servers, and the way to them."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for name in ("llamacpp", "ollama"):
            (folder / name).mkdir()
        llamacpp = stack.enter_context(start_llamacpp(folder / "llamacpp"))
        ollama = stack.enter_context(start_ollama(folder / "ollama"))
        ports = {
            "llama.cpp": int(llamacpp.rpartition(":")[2]),
            "scripted": stack.enter_context(start_scripted()),
        }
        internet = stack.enter_context(
            start_internet({host: ports[server] for host, server in HOSTS.items()})
        )
        trusted = folder / "trusted.pem"
        trusted.write_bytes(internet.certificate)
        keys = {name: KEY for row in PROVIDERS.values() for name in row.sdk_key_variables}
        own = {"CLIENT_MODEL": tiny_model.MODEL, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        own |= {"GROQ_API_KEY": "none", "MISTRAL_API_KEY": "none"}
        own |= {"AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE", "AWS_SECRET_ACCESS_KEY": KEY}
        yield World(
            {
                **own,
                **keys,
                "OLLAMA_HOST": ollama.url,
                "HTTPS_PROXY": internet.url,
                "NO_PROXY": "127.0.0.1,localhost",
                "SSL_CERT_FILE": os.fspath(trusted),
                "REQUESTS_CA_BUNDLE": os.fspath(trusted),
                "AWS_CA_BUNDLE": os.fspath(trusted),
            },
            own | dict.fromkeys(keys, "none"),
        )


def row_of(client: Client, here: World) -> dict[str, Any]:
    """All that is known of a client."""
    sys.stdout.write(f"{client.language}/{client.name}:")
    sys.stdout.flush()
    row: dict[str, Any] = {"name": client.name, "language": client.language, "server": client.server}
    row["version"] = install.version_of(client)
    row["roads"] = {}
    for road in get_args(Road):
        reason = "Interception is for Python." if road == "process" and client.language != "Python" else ""
        if road == "proxy" and client.no_proxy:
            reason = f"{client.no_proxy[0].upper()}{client.no_proxy[1:]}."
        row["roads"][road] = {"not_tried": reason} if reason else judge(client, road, here)
        sys.stdout.write(f" {road} {'–' if reason else 'no' if row['roads'][road]['why'] else 'ok'}")
        sys.stdout.flush()
    sys.stdout.write("\n")
    return row


def judge(client: Client, road: Road, here: World) -> dict[str, Any]:
    """Record a client, replay it, and let it ask something else."""
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        recorded = run(client, road, "once", store, here.recording)
        is_recorded = recorded.status == 0 and recorded.ledger.get("recorded", 0) > 0 and bool(recorded.steps)
        told: dict[str, Any] = {"recorded": is_recorded, "equal": 0, "miss": False}
        told |= dict.fromkeys(("stream", "tools", "structured"))
        if not is_recorded:
            return told | {"why": reason_in(recorded)}
        replayed = run(client, road, "replay", store, {**here.replaying, "CLIENT_ROUNDS": str(ROUNDS)})
        missed = run(client, road, "replay", store, {**here.replaying, "CLIENT_MODEL": OTHER})
        size = len(recorded.steps)
        rounds = [replayed.steps[start : start + size] for start in range(0, size * ROUNDS, size)]
        is_ours = not replayed.ledger.get("misses") and not replayed.ledger.get("live")
        told["equal"] = sum(one == recorded.steps for one in rounds) if is_ours else 0
        told["stream"] = verdict(recorded, rounds, "stream", lambda step: len(step.get("pieces", "ab")) > 1)
        told["tools"] = verdict(
            recorded, rounds, "tool", lambda step: bool(step.get("calls", step.get("answers")))
        )
        told["structured"] = verdict(recorded, rounds, "structured", lambda step: bool(step["parsed"]))
        told["miss"] = bool(MISSED.search(missed.said))
        why = ""
        if told["equal"] < ROUNDS:
            why = reason_in(replayed)
        elif not told["miss"]:
            why = f"A miss is not told: {reason_in(missed)}"
        elif False in told.values():
            why = "A step told nothing."
        return told | {"why": why}


def verdict(recorded: Ran, rounds: list[list[dict[str, Any]]], kind: str, is_whole: Any) -> bool | None:
    """Whether all steps of a kind told something, and the same each time; ``None`` if there are none."""
    mine = [index for index, step in enumerate(recorded.steps) if step["step"].rpartition(".")[2] == kind]
    if not mine:
        return None
    is_told = all(is_whole(recorded.steps[index]) for index in mine)
    return is_told and all(
        len(one) > index and one[index] == recorded.steps[index] for one in rounds for index in mine
    )


def run(client: Client, road: Road, mode: str, store: Path, variables: Mapping[str, str]) -> Ran:
    """Run a client by a road, with nothing in its environment that leads elsewhere."""
    environment = {name: value for name, value in os.environ.items() if not FOREIGN.match(name)} | dict(
        variables
    )
    environment |= {"CLIENT_ROAD": road, "HOME": os.fspath(store.parent)}
    command = install.command_of(client)
    if road == "process":
        python, *program = command
        whole = [python, os.fspath(IN_PROCESS), os.fspath(store), mode, *program]
    else:
        whole = [*behind(client, road, mode, store), "/bin/sh", "-c", 'exec "$@" 2>&1', "sh", *command]
    done = subprocess.run(
        whole,
        env=environment,
        cwd=store.parent,  # where no settings are
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if road == "process" else subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        timeout=SECONDS,
        check=False,
    )
    said, _, last = done.stdout.removesuffix("\n").rpartition("\n")
    if not last.startswith('{"hits"'):
        return Ran(done.returncode or 1, [], f"{done.stdout}\n{done.stderr or ''}", {})
    steps = [json.loads(line) for line in said.splitlines() if line.startswith("{") and '"step"' in line]
    return Ran(done.returncode, steps, said, json.loads(last))


def behind(client: Client, road: Road, mode: str, store: Path) -> Sequence[str]:
    """Our own program, up to the command that it runs."""
    verb = "replay" if mode == "replay" else "record"
    options = [
        "--store",
        os.fspath(store),
        "--json",
        "--pass-env",
        "GROQ_API_KEY",
        "--pass-env",
        "MISTRAL_API_KEY",
    ]
    if road == "proxy":
        # A client that comes by the proxy has no other way to us.
        urls = [name for row in PROVIDERS.values() for name in row.url_variables if row.kind != "ollama"]
        unset = [word for name in (*urls, "CORTEX_REPLAY_GATEWAY") for word in ("-u", name)]
        return [sys.executable, "-m", "cortex_replay", verb, "--proxy", *options, "--", "env", *unset]
    options += [word for name, url in UPSTREAMS.items() for word in ("--upstream", f"{name}={url}")]
    options += ["--no-key"] if verb == "record" else []
    return [sys.executable, "-m", "cortex_replay", verb, *options, "--"]


def reason_in(ran: Ran) -> str:
    """The line that says most about a failure, as it can be printed."""
    lines = [
        line.strip() for line in ran.said.splitlines() if line.strip() and not line.startswith('{"step"')
    ]
    marked = [line for line in lines if re.search(r"(?:Error|Exception|error|refused|cortex-replay:)", line)]
    line = (marked or lines or [f"It ended with status {ran.status}."])[-1]
    line = re.sub(r"(?:/[\w.@+-]+){3,}", "…", re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1", line))
    line = re.sub(r"t-[0-9a-f]{64}", "t-…", line).replace("|", "\\|").replace("`", "'")
    return f"`{line[:220]}`"


if __name__ == "__main__":
    sys.exit(main())
