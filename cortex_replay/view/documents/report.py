"""The document ``report``: what a command said of a run, from the file that it wrote.

The file may come from anywhere: its size is limited, every value is checked, and its texts are redacted again
and cut where they are too long.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Final, cast, get_args

from cortex_replay.canonical import JsonValue
from cortex_replay.engine.ledger import shorten
from cortex_replay.engine.money import PriceList
from cortex_replay.errors import ConfigError, InvalidRequest
from cortex_replay.redact.names import without_secrets
from cortex_replay.redact.redactor import Redactor
from cortex_replay.strict_json import JsonError, loads
from cortex_replay.validation import flag, items, kind_of, optional_integer, text, whole_number
from cortex_replay.view.shapes import (
    AnswerDocument,
    ChangeItem,
    DifferenceDocument,
    DriftReport,
    MissRow,
    ProblemGroup,
    ReportDocument,
    RunReport,
    ServerRow,
    SweepCell,
    SweepReport,
    TierWord,
    UnusedRow,
    VaryingRow,
    VerdictWord,
)

__all__ = ["LARGEST_REPORT", "report_document"]

LARGEST_REPORT: Final = 64 * 1024 * 1024
"""In bytes; who reads the file stops there."""
_MOST_ROWS: Final = 5000
"""Of each list. More make a page slow, and no reader goes through them."""
_MOST: Final = 10**15
_COUNTS: Final = ("hits", "missed", "recorded", "live", "repeated", "unsent", "failed", "declined")
_TOKENS: Final = ("prompt", "completion", "cached", "replayed", "replayed_cached")
_PROBLEMS: Final = {
    "errors": "Errors",
    "broken": "Not what the index vouches for",
    "not_recorded": "Not recorded",
    "failures": "Failed live calls",
    "recorded_failures": "Recorded as failures",
}
"""What a ledger lists in words, the worst first."""
_VERDICTS: Final = get_args(VerdictWord)


def report_document(data: bytes, name: str, redactor: Redactor) -> ReportDocument:
    """The document of a report.

    Args:
        data: What ``record``, ``replay`` or ``pytest`` wrote with ``--report``, or ``sweep`` and ``refresh``
            printed with ``--json``.
        name: How the page calls it.
        redactor: Cuts out what the file should not have held.

    Raises:
        ConfigError: It is no such report; the message says what is wrong with it.
    """
    try:
        return _document(data, redactor.text(name)[0], redactor)
    except InvalidRequest as error:
        reason = ": ".join(filter(None, (error.field, error.reason)))
        raise ConfigError(f"--report {name}", reason) from None


def _document(data: bytes, name: str, redactor: Redactor) -> ReportDocument:
    if len(data) > LARGEST_REPORT:
        raise InvalidRequest("", f"it is larger than {LARGEST_REPORT // 1024 // 1024} MB")
    try:
        clean = without_secrets(loads(data), redactor)
    except JsonError as error:
        raise InvalidRequest("", f"it is no JSON: {error}") from None
    document = ReportDocument(kind="run", name=name, runs=[], varying=[], sweep=None, drift=None)
    report = clean if isinstance(clean, dict) else {}
    if {"survived", "runs"} <= report.keys():
        document |= {"kind": "sweep", "sweep": _sweep(report)}
    elif {"asked", "changed"} <= report.keys():
        document |= {"kind": "drift", "drift": _drift(report)}
    elif {"hits", "misses"} <= report.keys():
        document["runs"] = [_run(report)]
    elif "runs" in report:
        document["runs"] = [_run(run) for run in _listed(report, "runs")]
        document["varying"] = [_varying(one) for one in _listed(report, "varying")]
    else:
        raise InvalidRequest(
            "",
            "it is none that a page shows: `record`, `replay` and `pytest` write one with --report "
            "(--llm-report), `sweep` and `refresh` print one with --json",
        )
    return document


def _run(ledger: Mapping[str, JsonValue]) -> RunReport:
    misses = _misses(ledger)
    counts = {key: _number(ledger.get(key, 0), key) for key in _COUNTS}
    if "missed" not in ledger:
        counts["missed"] = sum(miss["times"] for miss in misses)
    unused = [*_unused(ledger, "unused"), *_unused(ledger, "unused_calls")]
    paid, saved = _money(ledger)
    return RunReport(
        mode=_text(ledger.get("mode", ""), "mode"),
        command_status=optional_integer(ledger.get("command_status"), "command_status"),
        counts=counts,
        tokens=_tokens(ledger),
        paid=paid,
        saved=saved,
        misses=misses[:_MOST_ROWS],
        problems=[
            ProblemGroup(title=title, texts=texts)
            for key, title in _PROBLEMS.items()
            if (texts := _texts(ledger.get(key), key))
        ],
        unused=unused[:_MOST_ROWS],
        unused_count=len(unused),
        servers=[_server(name, counted) for name, counted in _object(ledger, "servers").items()][:_MOST_ROWS],
        bypassed=_counted(ledger, "bypassed"),
        remarks=_counted(ledger, "remarks"),
    )


def _misses(ledger: Mapping[str, JsonValue]) -> list[MissRow]:
    """Equal ones once: a program asks again and again."""
    times: Counter[tuple[str, str]] = Counter()
    for miss in _listed(ledger, "misses"):
        what = miss.get("what", miss.get("test", ""))
        times[_text(what, "misses.what"), _text(miss.get("explanation"), "misses.explanation")] += 1
    return [MissRow(what=what, explanation=why, times=count) for (what, why), count in times.items()]


def _tokens(ledger: Mapping[str, JsonValue]) -> dict[str, int]:
    """As the ledger has them, or as the plugin does: ``tokens.prompt`` or ``prompt_tokens``."""
    given = _object(ledger, "tokens")
    return {key: _number(given.get(key, ledger.get(f"{key}_tokens", 0)), f"tokens.{key}") for key in _TOKENS}


def _amount_text(amount: str, currency: str) -> str:
    """An amount as it is said everywhere else; one that is no number, as it stands."""
    try:
        return PriceList({}, currency or None).text_of(Decimal(amount))
    except InvalidOperation:
        return f"{amount} {currency}".rstrip()


def _money(ledger: Mapping[str, JsonValue]) -> tuple[str | None, str | None]:
    given = _object(ledger, "money")
    currency = _text(given.get("currency") or "", "money.currency")

    def amount(key: str) -> str | None:
        value = given.get(key)
        return None if value is None else _amount_text(_text(value, f"money.{key}"), currency)

    return amount("paid"), amount("saved")


def _unused(ledger: Mapping[str, JsonValue], key: str) -> list[UnusedRow]:
    return [
        UnusedRow(
            who=_text(row.get("model", row.get("server", "")), f"{key}.model"),
            key=_text(row.get("prompt_hash", row.get("key", "")), f"{key}.prompt_hash"),
            path=_text(row.get("path", ""), f"{key}.path"),
            scope=_text(row.get("scope") or "", f"{key}.scope"),
        )
        for row in _listed(ledger, key)
    ]


def _server(name: str, counted: JsonValue) -> ServerRow:
    if not isinstance(counted, dict):
        raise InvalidRequest("servers", f"expected an object, not {kind_of(counted)}")
    hits, missed, recorded, live, failed = (
        _number(counted.get(key, 0), f"servers.{key}")
        for key in ("hits", "missed", "recorded", "live", "failed")
    )
    return ServerRow(
        name=shorten(name), hits=hits, missed=missed, recorded=recorded, live=live, failed=failed
    )


def _varying(one: Mapping[str, JsonValue]) -> VaryingRow:
    differences = _objects(one.get("differences"), "varying.differences")
    call = one.get("call") if one.get("call") is not None else one.get("call_in_first_run")
    return VaryingRow(
        scope=_text(one.get("scope") or "", "varying.scope"),
        runs=[_number(run, "varying.runs") for run in items(one.get("runs"), "varying.runs")],
        call=None if call is None else _number(call, "varying.call"),
        question=_text(one.get("question") or "", "varying.question"),
        differences=[
            _text(row.get("difference", ""), "varying.differences") for row in differences[:_MOST_ROWS]
        ],
        is_noise=flag(one.get("is_noise", False), "varying.is_noise"),
    )


def _sweep(report: Mapping[str, JsonValue]) -> SweepReport:
    return SweepReport(
        calls=_number(report.get("calls", 0), "calls"),
        tool_calls=_number(report.get("tool_calls", 0), "tool_calls"),
        survived=flag(report["survived"], "survived"),
        cells=[_cell(run) for run in _objects(report["runs"], "runs")[:_MOST_ROWS]],
    )


def _cell(run: Mapping[str, JsonValue]) -> SweepCell:
    verdict: Any = run.get("verdict")
    if verdict not in _VERDICTS:
        raise InvalidRequest("runs.verdict", f"expected one of {', '.join(_VERDICTS)}")
    return SweepCell(
        turn=_number(run.get("turn"), "runs.turn"),
        tool=_text(run.get("tool", ""), "runs.tool"),
        fault=_text(run.get("fault"), "runs.fault"),
        verdict=verdict,
        status=optional_integer(run.get("status"), "runs.status"),
        calls=_number(run.get("calls", 0), "runs.calls"),
        again=_text(run.get("again", ""), "runs.again"),
        log=_text(run.get("log", ""), "runs.log"),
    )


def _drift(report: Mapping[str, JsonValue]) -> DriftReport:
    reasons = Counter(_text(row.get("reason"), "not_asked.reason") for row in _listed(report, "not_asked"))
    return DriftReport(
        asked=_number(report["asked"], "asked"),
        tiers={
            word: _number(_object(report, "tiers").get(word, 0), f"tiers.{word}")
            for word in get_args(TierWord)
        },
        items=[_item(row, at) for at, row in enumerate(_listed(report, "changed")[:_MOST_ROWS], start=1)],
        failed=[
            f"{_text(row.get('path', ''), 'failed.path')}: {_text(row.get('message', ''), 'failed.message')}"
            for row in _listed(report, "failed")[:_MOST_ROWS]
        ],
        not_asked=reasons.most_common(_MOST_ROWS),
        beyond_budget=len(items(report.get("beyond_budget"), "beyond_budget")),
        written=_texts(report.get("written"), "written"),
        paid=_money(report)[0],
    )


def _item(row: Mapping[str, JsonValue], number: int) -> ChangeItem:
    return ChangeItem(
        id=str(number),
        change="changed",
        tier=_tier(row.get("tier")),
        title=_text(row.get("title", ""), "changed.title"),
        who=_text(row.get("who", ""), "changed.who"),
        key=_text(row.get("key", ""), "changed.key"),
        path=_text(row.get("path", ""), "changed.path"),
        scopes=_texts(row.get("scopes"), "changed.scopes"),
        why="",
        differences=[
            DifferenceDocument(
                tier=_tier(one.get("tier")),
                kind=_text(one.get("kind", ""), "differences.kind"),
                place=_text(one.get("place", ""), "differences.place"),
                before=one.get("before"),
                after=one.get("after"),
                text=_text(one.get("text", ""), "differences.text"),
            )
            for one in _listed(row, "differences")[:_MOST_ROWS]
        ],
        before=[_answer(one) for one in _listed(row, "before")],
        after=[_answer(one) for one in _listed(row, "after")],
    )


def _tier(value: object) -> TierWord:
    for word in get_args(TierWord):
        if word == value:
            return cast("TierWord", word)
    raise InvalidRequest("tier", f"expected one of {', '.join(get_args(TierWord))}")


def _answer(answer: Mapping[str, JsonValue]) -> AnswerDocument:
    reason = answer.get("finish_reason")
    return AnswerDocument(
        text=_text(answer.get("text", ""), "answer.text"),
        reasoning=_text(answer.get("reasoning", ""), "answer.reasoning"),
        tool_calls=[
            {"name": _text(call.get("name"), "tool_calls.name"), "arguments": call.get("arguments")}
            for call in _listed(answer, "tool_calls")
        ],
        parsed=answer.get("parsed"),
        finish_reason=None if reason is None else _text(reason, "answer.finish_reason"),
        spent=None,
        stream=None,
        status=optional_integer(answer.get("status"), "answer.status"),
    )


def _listed(report: Mapping[str, JsonValue], key: str) -> Sequence[dict[str, JsonValue]]:
    return _objects(report.get(key), key)


def _object(report: Mapping[str, JsonValue], key: str) -> Mapping[str, JsonValue]:
    value = report.get(key)
    if value is not None and not isinstance(value, dict):
        raise InvalidRequest(key, f"expected an object, not {kind_of(value)}")
    return value or {}


def _objects(value: JsonValue, key: str) -> Sequence[dict[str, JsonValue]]:
    found = items(value, key)
    rows = [row for row in found if isinstance(row, dict)]
    if len(rows) != len(found):
        raise InvalidRequest(key, "expected a list of objects")
    return rows


def _counted(report: Mapping[str, JsonValue], key: str) -> list[tuple[str, int]]:
    counted = [(shorten(name), _number(count, key)) for name, count in _object(report, key).items()]
    return sorted(counted, key=lambda pair: -pair[1])[:_MOST_ROWS]


def _texts(value: JsonValue, key: str) -> list[str]:
    return [_text(one, key) for one in items(value, key)[:_MOST_ROWS]]


def _text(value: object, key: str) -> str:
    return shorten(text(value, key))


def _number(value: object, key: str) -> int:
    return whole_number(value, key, _MOST)
