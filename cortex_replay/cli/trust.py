"""``cortex-replay trust``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import click

from cortex_replay.cli import output
from cortex_replay.cli.options import DRIFT, command, json_option
from cortex_replay.config import ProviderSettings, load_settings
from cortex_replay.config.files import shown_path
from cortex_replay.config.provider import kind_settings
from cortex_replay.config.trust import (
    CLIENT,
    TRUST_VARIABLE,
    Consent,
    consent_of,
    consents_in,
    is_ci,
    needed_consent,
    recall,
    remember,
    trust_file,
)
from cortex_replay.errors import InvalidRequest

__all__ = ["trust_command"]


@command(
    "trust",
    epilog=f"""Examples:

  cortex-replay trust                                  what this project asks for
  cortex-replay trust https://llm.example LLM_KEY      allow one of them
  cortex-replay trust https://llm.example client       pass on the keys that clients bring themselves
  cortex-replay trust --list                           what is allowed on this machine
  cortex-replay trust --remove https://llm.example     allow it no longer

In CI nothing that is remembered counts: set {TRUST_VARIABLE}=https://llm.example=LLM_KEY there.

Exit status:
  0  done; or there is nothing that is not allowed yet
  2  wrong usage
  4  this project asks for something that is not allowed
""",
)
@click.argument("server", required=False)
@click.argument("key", required=False, metavar="[VARIABLE|FILE|client]")
@click.option("--all", "is_all", is_flag=True, help="Allow everything that this project asks for.")
@click.option("--list", "is_list", is_flag=True, help="Show what is allowed on this machine.")
@click.option("--remove", "is_remove", is_flag=True, help="Allow it no longer; without a key, none at all.")
@json_option
@click.pass_context
def trust_command(
    ctx: click.Context,
    server: str | None,
    key: str | None,
    is_all: bool,
    is_list: bool,
    is_remove: bool,
    as_json: bool,
) -> None:
    """Say which keys may go to which servers.

    A project's configuration comes with its repository. Where it names a server that is neither its
    provider's own nor on this machine, or a key of another name than its provider's, no key is sent
    there until you say so here. What you say is remembered in your own folder, for each server and key.
    Replaying needs no key and none of this.
    """
    if sum([is_all, is_list, is_remove]) > 1 or (server is not None and (is_all or is_list)):
        raise click.UsageError("--all, --list, --remove and a server (but for --remove) exclude each other")
    if is_remove:
        if server is None:
            raise click.UsageError("--remove needs a server")
        _remove(server, key, as_json=as_json)
    elif is_list:
        _print_consents(sorted(recall(os.environ)), "{server}  {key}", as_json=as_json)
    elif server is not None:
        if key is None:
            raise click.UsageError("name the variable or the file that holds the key, or client")
        _add([consent_of(server, key, "trust")], as_json=as_json)
    else:
        wishes = list(_wishes())
        if is_all:
            for wish in wishes:
                output.talk(_row(wish))
            _add([wish.consent for wish in wishes if not wish.is_allowed], as_json=as_json)
        else:
            ctx.exit(_print_wishes(wishes, as_json=as_json))


class _Wish(NamedTuple):
    """What a provider of this project asks for."""

    provider: str
    consent: Consent
    is_allowed: bool


def _wishes() -> Iterator[_Wish]:
    allowed = consents_in(os.environ)
    for name, provider in load_settings(Path(), os.environ).settings.providers.items():
        if "base_url" not in kind_settings(provider.kind):
            continue
        for consent in _consents_for(name, provider):
            yield _Wish(name, consent, consent in allowed)


def _consents_for(name: str, provider: ProviderSettings) -> Iterator[Consent]:
    setting = "key_env" if provider.key_env else None
    keys: dict[str, str | None] = dict.fromkeys(provider.key_variables, setting)
    if provider.key_file is not None:
        keys[os.path.normpath(provider.key_file.absolute())] = "key_file"
    if not keys:
        keys[CLIENT] = None
    for key, named_by in keys.items():
        try:
            needed = needed_consent(provider, key, named_by)
        except InvalidRequest as error:
            output.talk(f"warning: providers.{name}.{error.field}: {error.reason}")
            return
        if needed is not None:
            yield needed


def _row(wish: _Wish) -> str:
    state = "allowed" if wish.is_allowed else f"not allowed; {wish.consent.command}"
    return output.escape(f"{wish.provider}: {wish.consent.key} to {wish.consent.server}: {state}")


def _print_wishes(wishes: list[_Wish], *, as_json: bool) -> int:
    if as_json:
        rows = [
            {"provider": wish.provider, **wish.consent._asdict(), "allowed": wish.is_allowed}
            for wish in wishes
        ]
        output.print_json({"asked": rows})
    else:
        for wish in wishes:
            output.echo(_row(wish))
        if not wishes:
            output.talk("this project asks for nothing that needs to be allowed")
    return 0 if all(wish.is_allowed for wish in wishes) else DRIFT


def _print_consents(consents: list[Consent], line: str, *, as_json: bool) -> None:
    if as_json:
        path = trust_file(os.environ)
        rows: list[Mapping[str, str]] = [one._asdict() for one in consents]
        output.print_json({"file": path and shown_path(path), "trust": rows})
        return
    for one in consents:
        output.echo(output.escape(line.format(server=one.server, key=one.key)))


def _add(consents: list[Consent], *, as_json: bool) -> None:
    known = recall(os.environ)
    path = remember({*known, *consents}, os.environ)
    _print_consents(sorted(set(consents) - known), "allowed: {key} to {server}", as_json=as_json)
    if not as_json:
        output.talk(f"remembered in {output.escape(shown_path(path))}")
    if is_ci(os.environ):
        output.talk(f"warning: CI is set, where this does not count; set {TRUST_VARIABLE}")


def _remove(server: str, key: str | None, *, as_json: bool) -> None:
    known = recall(os.environ)
    wanted = consent_of(server, key or CLIENT, "trust")
    gone = {one for one in known if one == wanted or (key is None and one.server == wanted.server)}
    if gone:
        remember(known - gone, os.environ)
    _print_consents(sorted(gone), "no longer allowed: {key} to {server}", as_json=as_json)
    if not gone and not as_json:
        output.talk("nothing of that was allowed")
