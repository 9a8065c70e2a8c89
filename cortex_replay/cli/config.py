"""``cortex-replay config``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import click

from cortex_replay.bindings import BindingRules, PlaceRule, Surroundings
from cortex_replay.bindings.rules import ValueRule
from cortex_replay.bindings.surroundings import KNOWN
from cortex_replay.cli import output
from cortex_replay.cli.options import command, json_option, store_option, store_root
from cortex_replay.config import (
    Configuration,
    Normaliser,
    Price,
    Settings,
    key_origin,
    key_rules_for,
    load_settings,
)
from cortex_replay.config.ages import age_words
from cortex_replay.config.files import find_config, shown_path
from cortex_replay.config.provider import kind_settings
from cortex_replay.config.remote import cache_folder, is_offline
from cortex_replay.engine.open_values import without_secrets
from cortex_replay.errors import InvalidRequest, StoreIo
from cortex_replay.modes import Mode
from cortex_replay.redact.redactor import Redactor
from cortex_replay.remote.access import access_to
from cortex_replay.remote.cache import Cache

__all__ = ["config_command"]


@command(
    "config",
    epilog="""Examples:

  cortex-replay config                      what holds in this folder, and where it comes from
  cortex-replay config --provider ollama    and what would hold with a flag
  cortex-replay config --json | jq -r .settings.store.value

Exit status:
  0  the settings are sound
  2  wrong usage, or a setting that cannot be; the message says which and where
""",
)
@store_option
@click.option("--mode", type=click.Choice([*map(str, Mode)]), help="As if a command were given this mode.")
@click.option("--provider", metavar="NAME", help="As if a command were given this provider.")
@click.option("--model", metavar="NAME", help="As if a command were given this model.")
@json_option
@click.pass_context
def config_command(ctx: click.Context, /, store: Path | None, as_json: bool, **flags: Any) -> None:
    """Show every setting, its value, and where that comes from.

    Settings come from cortex-replay.toml or from [tool.cortex-replay] in pyproject.toml, then from the
    environment (CORTEX_REPLAY_MODE and so on), then from flags; the last one wins. Keys are never
    shown, only whether there is one.
    """
    is_store_named = store is not None or ctx.find_root().params.get("store") is not None
    flags["store"] = store_root(ctx, store) if is_store_named else None
    loaded = load_settings(Path(), os.environ, flags)
    keys = dict(_keys(loaded.settings, os.environ))
    bound = list(_bound(key_rules_for(loaded.settings.store).bindings))
    warnings = [*loaded.warnings, *_rule_warnings(loaded)]
    if as_json:
        output.print_json(
            _as_json(loaded, keys, warnings) | {"bindings": _bound_as_json(bound), "remote": _remote(loaded)}
        )
    else:
        _print(loaded, keys)
        _print_remote(_remote(loaded))
        _print_bound(bound)
    for warning in warnings:
        output.talk(f"warning: {output.escape(warning)}")


class _Key(NamedTuple):
    """What may be said of a key."""

    state: str
    origin: str | None


def _keys(settings: Settings, environment: Mapping[str, str]) -> Iterator[tuple[str, _Key]]:
    for name, provider in settings.providers.items():
        if "key_env" not in kind_settings(provider.kind):
            continue
        try:
            origin = key_origin(provider, environment)
        except InvalidRequest as error:
            yield name, _Key("unusable", f"{error.field}: {error.reason}")
        else:
            yield name, _Key("not set" if origin is None else "set", origin)


def _remote(loaded: Configuration) -> dict[str, object] | None:
    """How the bucket would be asked, and what was fetched from any; nothing is asked."""
    settings = loaded.settings.remote
    if settings.url is None:
        return None
    cache = Cache(cache_folder(os.environ), settings.cache_size)
    used = cache.usage()
    try:
        scheme = settings.url.partition(":")[0]
        access = None if scheme == "file" else access_to(scheme, settings.region)
        state = "needs no credentials" if access is None else access.state
    except StoreIo as error:
        state = str(error.args[0])
    return {
        "access": "not asked, since CORTEX_REPLAY_OFFLINE is set" if is_offline() else state,
        "cache": None if cache.path is None else str(cache.path),
        "cached_files": used.files,
        "cached_bytes": used.size,
    }


def _print_remote(remote: dict[str, object] | None) -> None:
    if remote is not None:
        used = f"{remote['cached_files']:,} files, {remote['cached_bytes']:,} bytes"
        output.echo()
        output.echo(f"The bucket: {output.escape(str(remote['access']))}")
        output.echo(f"What was fetched: {used} in {output.escape(str(remote['cache']))}")


class _Bound(NamedTuple):
    """A value of the surroundings, as a run in this folder would bind it."""

    name: str
    value: str | None
    problem: str | None
    """Why it is not bound."""


def _bound(rules: BindingRules) -> Iterator[_Bound]:
    given = without_secrets(rules, os.environ, Redactor)
    known = Surroundings.of(os.environ, Path.cwd(), rules=given).current()
    for name in dict.fromkeys([*KNOWN, *rules.values]):
        value = known.values.get(name, known.unsafe.get(name, {})).get("")
        problem = known.left_out.get(name)
        if name in rules.off:
            problem = "bindings.off names it"
        elif name in rules.values and name not in given.values:
            problem = f"{rules.values[name].env} holds a secret"
        elif value is None and problem is None:
            problem = "there is none here"
        yield _Bound(name, value, problem)


def _bound_as_json(bound: list[_Bound]) -> dict[str, object]:
    return {
        one.name: {"value": one.value, "is_bound": one.problem is None, "reason": one.problem}
        for one in bound
    }


def _print_bound(bound: list[_Bound]) -> None:
    output.echo()
    output.echo("A recording that is made here holds a placeholder for:")
    width = max(len(one.name) for one in bound)
    for one in bound:
        state = (
            output.escape(one.value or "")
            if one.problem is None
            else f"not bound: {output.escape(one.problem)}"
        )
        output.echo(f"  {one.name:{width}}  {state}")


def _rule_warnings(loaded: Configuration) -> Iterator[str]:
    """A store is found by the rules of the configuration above it, which need not be this one."""
    store = loaded.settings.store
    key_rules_for(store)
    above = find_config(store)
    if (above and above.path) != (loaded.file and loaded.file.path):
        whose = "no file" if above is None else above.shown
        yield f"normalisers, bindings and redact_key of the store {shown_path(store)} come from {whose}"


def _as_json(loaded: Configuration, keys: Mapping[str, _Key], warnings: list[str]) -> dict[str, object]:
    return {
        "file": loaded.file and loaded.file.shown,
        "settings": {
            name: {"value": _json_of(value), "origin": loaded.origins[name]}
            for name, value in loaded.settings.flat()
        },
        "keys": {name: key._asdict() for name, key in keys.items()},
        "warnings": warnings,
    }


def _json_of(value: object) -> object:
    if isinstance(value, Path):
        return shown_path(value)
    if isinstance(value, timedelta):
        return age_words(value)
    if isinstance(value, Price):
        return {side: None if amount is None else float(amount) for side, amount in asdict(value).items()}
    if isinstance(value, Normaliser | ValueRule | PlaceRule):
        return {name: given for name, given in asdict(value).items() if given}
    if isinstance(value, Mapping):
        return dict(value)
    return [_json_of(item) for item in value] if isinstance(value, tuple) else value


def _print(loaded: Configuration, keys: Mapping[str, _Key]) -> None:
    rows = [(name, _text_of(value), loaded.origins[name]) for name, value in loaded.settings.flat()]
    widths = [min(max(len(row[i]) for row in rows), 48) for i in (0, 1)]
    above = ""
    for name, value, origin in rows:
        group = ".".join(name.split(".")[:2]) if name.startswith("providers.") else name.partition(".")[0]
        if "." in name and group != above:
            output.echo()
            above = group
        where = click.style(output.escape(origin), bold=origin != "default")
        output.echo(f"{name:{widths[0]}}  {value:{widths[1]}}  {where}")
        provider = group.removeprefix("providers.")
        if name == f"providers.{provider}.key_env" and provider in keys:
            state, key_from = keys[provider]
            detail = "" if key_from is None else f" (from {key_from})" if state == "set" else f": {key_from}"
            output.echo(f"{f'{group}.key':{widths[0]}}  {state}{output.escape(detail)}")


def _text_of(value: object) -> str:
    if value in (None, (), {}):
        return "-"
    if isinstance(value, Mapping):
        return output.escape(", ".join(f"{name} = {given}" for name, given in value.items()))
    if isinstance(value, Normaliser):
        return output.escape(f"{value.pattern} -> {value.placeholder}")
    if isinstance(value, Price):
        sides = {
            "in": value.input,
            "out": value.output,
            "cached": value.cached,
            "written for 5m": value.cache_write_5m,
            "written for 1h": value.cache_write_1h,
        }
        given = [f"{amount:f} {side}" for side, amount in sides.items() if amount is not None]
        return f"{', '.join(given)}, per million tokens"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Path):
        return output.escape(shown_path(value))
    if isinstance(value, timedelta):
        return age_words(value)
    if isinstance(value, ValueRule):
        return output.escape(f"${value.env}" if value.env else value.value or "")
    if isinstance(value, PlaceRule):
        return output.escape(f"{value.before}⟦{value.bind}⟧{value.after}")
    return ", ".join(map(_text_of, value)) if isinstance(value, tuple) else output.escape(str(value))
