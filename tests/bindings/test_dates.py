"""Today is bound in the forms that programs print; no other day is."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest

from cortex_replay.bindings import Binder, BindingRules, Surroundings
from cortex_replay.bindings.dates import days_in, forms_of_days
from cortex_replay.bindings.forms import main_form
from cortex_replay.types import LlmRequest
from tests.bindings.ann import ENVIRONMENT, bind, surroundings

DAY = date(2026, 11, 5)


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("2026-11-05", ""),
        ("2026/11/05", ":slash"),
        ("20261105", ":compact"),
        ("11/5/2026", ":numeric"),
        ("11/05/2026", ":numeric"),
        ("05/11/2026", ":numeric"),
        ("5.11.2026", ":numdot"),
        ("11/05/26", ":short"),
        ("Thursday, November 5, 2026", ":wmdy"),
        ("Thu Nov 05 2026", ":js"),
        ("Thu, 05 Nov 2026", ":rfc"),
        ("Thursday, 5 November 2026", ":wdmy"),
        ("November 5, 2026", ":mdy"),
        ("November 5th, 2026", ":mdth"),
        ("Nov 5, 2026", ":mdy"),
        ("5 November 2026", ":dmy"),
        ("5 Nov 2026", ":dmy"),
        ("05-Nov-2026", ":dmdash"),
        ("November 2026", ":my"),
        ("Nov 2026", ":my"),
        ("2026-11", ":ym"),
    ],
)
def test_today_is_bound_in_every_form(text: str, form: str) -> None:
    assert bind(f"is {text}.") == f"is ⟦date{form}⟧."


@pytest.mark.parametrize(
    "text",
    [
        *(
            "2026-11-06",
            "2026-11-050",
            "12026-11-05",
            "x2026-11-05",
            "2026-11-03",
            "11/6/2026",
            "1/11/5/2026",
        ),
        *(
            "6 November 2026",
            "3rd November 2026",
            "November 6, 2026",
            "October 2026",
            "2026",
            "November",
            "Thursday",
        ),
        *("v2026.11.05.1", "320261105", "Nov 20261"),
    ],
)
def test_another_day_is_not_bound(text: str) -> None:
    assert bind(f"is {text}, ") == f"is {text}, "


def test_a_date_in_a_name_is_bound() -> None:
    assert (
        bind("log-2026-11-05.txt log_2026-11-05-1 2026-11-05T") == "log-⟦date⟧.txt log_⟦date⟧-1 2026-11-05T"
    )


def test_both_spellings_of_a_form_come_back() -> None:
    assert bind("11/5/2026 11/05/2026 11/5/2026") == "⟦date:numeric⟧ ⟦date:numericalt⟧ ⟦date:numeric⟧"


def test_it_is_the_day_of_the_command_and_of_utc() -> None:
    """In Kiritimati it is tomorrow."""
    known = surroundings(now=datetime(2026, 11, 5, 20, tzinfo=UTC), TZ="Pacific/Kiritimati")

    assert bind("2026-11-06", known=known) == bind("2026-11-05", known=known) == "⟦date⟧"
    assert bind("2026-11-05 2026-11-06", known=known) == "⟦date⟧ ⟦date:alt⟧"
    assert bind("2026-11-04", known=known) == "2026-11-04"


def test_a_run_goes_on_over_midnight() -> None:
    """The date is that of the moment, and the first day of the run still counts."""
    moments = [datetime(2026, 11, 5, 22, 50, tzinfo=UTC)]
    known = Surroundings.of(ENVIRONMENT | {"TZ": "UTC"}, "/srv/ann", lambda: moments[-1])
    before, at_start = known.state(), known.current()
    moments.append(moments[0] + timedelta(hours=2))

    assert bind("2026-11-05 2026-11-06", known=at_start) == "⟦date⟧ 2026-11-06"
    assert known.state() != before
    assert bind("2026-11-06 2026-11-05", known=known) == "⟦date⟧ ⟦date:alt⟧"


def test_it_can_be_another_day() -> None:
    known = surroundings().on(date(2027, 1, 2))

    assert bind("2027-01-02 2026-11-05", known=known) == "⟦date⟧ 2026-11-05"


def test_every_form_of_a_day_is_read_as_that_day() -> None:
    """So a day that a request names can be tried as today."""
    for form, text in forms_of_days([DAY]).items():
        if main_form(form) in ("short", "my", "mycomma", "ym"):
            continue
        assert DAY in days_in(f"It is {text} now.", 5), form
    assert days_in("June 2026", 5) == [date(2026, 6, 1)]
    assert days_in("Mon Nov 16 03:34:36 UTC 2026", 5) == [date(2026, 11, 16)]
    assert days_in("2026-13-45 or 1/2/3 or 99999999", 5) == []
    assert days_in(" ".join(f"2026-01-{day:02}" for day in range(1, 30)), 5)[-1] == date(2026, 1, 5)


def test_a_text_has_one_name_on_every_day() -> None:
    """Also in May, whose name is short, and where day and month are one number."""
    names = []
    for day in (date(2026, 11, 30), date(2026, 5, 17), date(2026, 5, 5), date(2026, 1, 9)):
        binder = Binder(BindingRules(), surroundings().on(day))
        texts = forms_of_days([day]).items()
        names.append({form: binder.bind(LlmRequest("m", system=text)).request.system for form, text in texts})

    assert names[0] == names[1] == names[2] == names[3]


def test_only_the_start_of_a_very_long_text_is_read_for_days() -> None:
    padding = " " * (4 * 1024 * 1024)

    assert days_in(f"2026-11-16{padding}2026-11-17", 5) == [date(2026, 11, 16)]
