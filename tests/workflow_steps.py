"""Runs the steps of a GitHub action or workflow as a runner does: conditions, variables, outputs, failures.

What it does not know, it refuses: an expression that is evaluated wrongly would prove nothing.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

__all__ = ["Context", "Job", "Ran", "evaluate", "fill"]

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<text>'(?:[^']|'')*')|(?P<operator>&&|\|\||==|!=|!|\(|\))|(?P<name>[\w.-]+(?:\(\))?))"
)
_EXPRESSION: Final = re.compile(r"\$\{\{(.*?)\}\}", re.DOTALL)
_STATUSES: Final = ("success()", "failure()", "cancelled()", "always()")
Context = Mapping[str, Any]


class _Reader:
    """An expression, read from left to right."""

    def __init__(self, text: str, context: Context, *, has_failed: bool) -> None:
        self.tokens: list[tuple[str, str]] = []
        place = 0
        while text[place:].strip():
            match = _TOKEN.match(text, place)
            assert match is not None, f"no expression: {text!r}"
            assert match.lastgroup is not None
            self.tokens.append((match.lastgroup, match[match.lastgroup]))
            place = match.end()
        self.context, self.has_failed = context, has_failed

    def _next_is(self, *operators: str) -> bool:
        return bool(self.tokens) and self.tokens[0][0] == "operator" and self.tokens[0][1] in operators

    def either(self) -> Any:
        value = self.both()
        while self._next_is("||"):
            self.tokens.pop(0)
            other = self.both()
            value = value or other
        return value

    def both(self) -> Any:
        value = self.compared()
        while self._next_is("&&"):
            self.tokens.pop(0)
            other = self.compared()
            value = value and other
        return value

    def compared(self) -> Any:
        value = self.single()
        if self._next_is("==", "!="):
            _, operator = self.tokens.pop(0)
            other = self.single()
            return (_plain(value) == _plain(other)) == (operator == "==")
        return value

    def single(self) -> Any:
        kind, text = self.tokens.pop(0)
        if kind == "text":
            return text[1:-1].replace("''", "'")
        if text == "!":
            return not self.single()
        if text == "(":
            value = self.either()
            assert self.tokens.pop(0)[1] == ")"
            return value
        assert kind == "name", text
        if text.endswith("()"):
            known = {"success()": not self.has_failed, "failure()": self.has_failed, "cancelled()": False}
            return {**known, "always()": True}[text]
        top, *names = text.split(".")
        value = self.context[top]
        for name in names:
            value = value.get(name) if isinstance(value, Mapping) else None
        return value


def _plain(value: Any) -> Any:
    return "" if value is None else value


def evaluate(text: str, context: Context, *, has_failed: bool = False) -> Any:
    """The value of an expression."""
    reader = _Reader(text, context, has_failed=has_failed)
    value = reader.either()
    assert not reader.tokens, f"left of {text!r}: {reader.tokens}"
    return value


def fill(text: object, context: Context) -> str:
    """A text with its expressions evaluated."""

    def value(match: re.Match[str]) -> str:
        found = _plain(evaluate(match[1], context))
        return str(found).lower() if isinstance(found, bool) else str(found)

    return _EXPRESSION.sub(value, str(text))


@dataclass(frozen=True)
class Ran:
    """A step that was run, or an action that was used."""

    name: str
    status: int
    output: str = ""
    given: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Job:
    """A job on a runner.

    Args:
        folder: Where its work tree is.
        temporary: The runner's own folder, for this job.
        context: ``github``, ``inputs`` and the like.
        environment: What every step gets.
        used: What the actions of others do: their outputs, by their name without the version.
    """

    folder: Path
    temporary: Path
    context: dict[str, Any]
    environment: dict[str, str]
    used: Mapping[str, Callable[[Mapping[str, str]], dict[str, str]]] = field(default_factory=dict)
    ran: dict[str, Ran] = field(default_factory=dict)
    has_failed: bool = False

    def run(self, steps: list[dict[str, Any]], defaults: Mapping[str, str] | None = None) -> None:
        """Run all steps, each if its condition holds."""
        self.context["steps"] = {}
        for step in steps:
            name = str(step["name"])
            if not self._is_due(str(step.get("if", "success()"))):
                continue
            ran, outputs = self._use(step) if "uses" in step else self._shell(step, defaults or {})
            self.ran[name] = ran
            if "id" in step:
                self.context["steps"][step["id"]] = {"outputs": outputs}
            self.has_failed = self.has_failed or (ran.status != 0 and not step.get("continue-on-error"))

    def outputs(self, declared: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
        return {name: fill(output["value"], self.context) for name, output in declared.items()}

    def _is_due(self, condition: str) -> bool:
        match = _EXPRESSION.fullmatch(condition.strip())
        text = match[1] if match else condition
        if not any(status in text for status in _STATUSES):
            text = f"success() && ({text})"
        return bool(evaluate(text, self.context, has_failed=self.has_failed))

    def _use(self, step: dict[str, Any]) -> tuple[Ran, dict[str, str]]:
        action, _, version = step["uses"].partition("@")
        assert re.fullmatch(r"[0-9a-f]{40}", version), "an action of others is named by its commit"
        given = {key: fill(value, self.context) for key, value in step.get("with", {}).items()}
        return Ran(step["name"], 0, given=given), self.used[action](given)

    def _shell(self, step: dict[str, Any], defaults: Mapping[str, str]) -> tuple[Ran, dict[str, str]]:
        assert "${{" not in step["run"], "text of others would be a part of the script"
        assert step.get("shell", defaults.get("shell")) == "bash"
        output, paths = self.temporary / "output", self.temporary / "path"
        output.write_text("")
        paths.touch()
        environment = {
            **self.environment,
            "GITHUB_OUTPUT": str(output),
            "GITHUB_PATH": str(paths),
            "GITHUB_STEP_SUMMARY": str(self.temporary / "summary.md"),
            "RUNNER_TEMP": str(self.temporary),
            **{name: fill(value, self.context) for name, value in step.get("env", {}).items()},
        }
        environment["PATH"] = os.pathsep.join([*reversed(paths.read_text().split()), environment["PATH"]])
        where = fill(step.get("working-directory", defaults.get("working-directory", ".")), self.context)
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=self.folder / where,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        pairs = (line.partition("=") for line in output.read_text().splitlines())
        return Ran(step["name"], done.returncode, done.stdout), {name: value for name, _, value in pairs}
