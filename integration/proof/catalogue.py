"""All proofs, in the order of the page: what each is about. Its module is loaded when it is run."""

from __future__ import annotations

from typing import Final

from integration.proof.figures import Proof

__all__ = ["PROOFS"]

PROOFS: Final[tuple[Proof, ...]] = (
    Proof(
        "kills",
        "Kills",
        "`kill -9` while something is recorded. *Answers lost* are those that were committed, or that "
        "the program which asked had been given, and that are not there afterwards. *Next one fails*: "
        "somebody has to clean up by hand. For vcrpy, tests one after the other add a call each to "
        "one cassette (`new_episodes`).",
        "kills",
        "kills",
        24,
    ),
    Proof(
        "power",
        "Losses of power",
        "The system calls of a program are traced. For each instant, every state is made that a disk "
        "may be in when the power goes: what was not synced is there, lost, torn at a sector or "
        "zeros, and names reach the disk in any order (`tests/torture/power_loss.py`). It is *bad* if "
        "it is neither that of before the change nor that of after it, or lacks what was said to be "
        "saved. git is left out: it works with hard links, and this model of a disk knows none.",
        "losses",
        "power",
        0,
    ),
    Proof(
        "writers",
        "Many writers",
        "Processes that record into one store, or one cassette, at once; each answer is saved before "
        "the next.",
        "answers",
        "writers",
    ),
    Proof(
        "bits",
        "Flipped bits",
        "One bit of a file is flipped, and all that is recorded is asked for. *Served wrong*: a call "
        "got another answer than was recorded. *Served as recorded*: the bit says nothing that "
        "counts. *Missed*: the call is not found, and so is asked again, or refused.",
        "bits",
        "bits",
        None,
    ),
    Proof(
        "fuzz",
        "Fuzzing",
        "Documents and requests that are changed at random: bytes, tokens and pieces in other places, "
        "numbers and nesting without end; heads, paths, chunks, JSON of five wires and WebSocket frames. "
        "A *crash* is any error but the one that says what is wrong, a status of 500 or more, or no word "
        "at all. *Served wrongly*: a file was trusted, or a request answered, that is not what was "
        "recorded. It *hangs* if it says nothing and keeps the connection for 15 s. *Gone afterwards*: "
        "what is recorded is not served any more. aimock looks for a "
        "recorded text within the question, as documented, so it serves more than it was given.",
        "cases",
        "fuzz",
        24,
    ),
    Proof(
        "secrets",
        "Secrets",
        "Secrets of many kinds and encodings are planted in all that is written: prompts, answers, "
        "headers, errors, logs, imports, whatever a killed gateway leaves "
        "(`tests/security/campaign`). A judge that shares no code with the redactor then reads every "
        "byte. vcrpy has its documented filters for headers, queries and posted fields; they look at "
        "names, not at texts, and there is none for answers.",
        "secrets",
        "planted_secrets",
        None,
    ),
    Proof(
        "mutants",
        "Planted bugs",
        "Single bugs are planted in the code, one at a time, and the tests of the part are run "
        "(`tests/mutants`, `make mutants`). One is *caught* if a test fails that passes without it. A "
        "whole run takes hours: this is what the last one kept in `.proof/`.",
        "bugs",
        "planted_bugs",
        None,
    ),
    Proof(
        "soak",
        "Soak",
        "A server answers recorded calls of clients that ask at once. Memory and open files are "
        "looked at after a tenth of as many calls, and at the end.",
        "calls",
        "soak",
        None,
    ),
    Proof(
        "flakiness",
        "Flakiness",
        "The whole of `make test`, repeated on one machine beside processes that only spin; every run that "
        "ended is counted, whenever it was.",
        "runs",
        "flakiness",
        None,
    ),
)
