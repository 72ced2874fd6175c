"""What a record of the protocol must hold: one that breaks a rule stops its study, with an error that names it.

What is notable:
- a record that was not declared, or of another declaration, or was made by another version of the protocol, is
  refused; what it holds is not read, since another version has other fields;
- a rate that was not tried as the protocol says is refused, and so is a reported run at one that is not the best.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..checks import require
from .protocol import (
    TEST_TARGETS,
    TUNING_SEED,
    TUNING_SEEDS,
    TUNING_TARGETS,
    Entry,
    Study,
    chosen_rate,
    close_rates,
    key_of,
    octaves,
    targets_of,
    tried,
)
from .records import Record

FIELDS = ("role", "run", "metrics", "validation")  # what every record holds
ORIGIN = ("declaration", "commit", "started")  # and from protocol 3 on


def unreadable(study: Study, record: Record) -> str | None:
    """Why what a record holds is not read; None if it is of the study's protocol and declaration, and whole."""
    version = study.protocol
    if record.get("protocol") != version:
        return f"is of protocol {record.get('protocol')!r}; expected {version}"
    missing = [name for name in (FIELDS + ORIGIN if version > 2 else FIELDS) if name not in record]
    if missing:
        return f"is of protocol {version} and lacks {missing}"
    if version > 2 and record["declaration"] != study.checksum:
        return f"is of the declaration {record['declaration']!r}; expected {study.checksum!r}"
    return None


def problems(study: Study, records: Iterable[Record]) -> Iterator[str]:
    """What is wrong with the records of a study, in words; nothing if they follow its declaration.

    Records may be incomplete: a run that is missing is not wrong.
    """
    records, entries = list(records), study.by_key()
    whole = [record for record in records if unreadable(study, record) is None]
    devices = sorted({str(record.get("device")) for record in whole})
    if len(devices) > 1:
        yield f"{study.name!r} was run on {devices}; expected one kind of device, whose results alone compare"
    seen: set[tuple[str, str, float, int]] = set()
    for number, record in enumerate(records, start=1):
        where = f"record {number} of {study.name!r}"
        if problem := unreadable(study, record):
            yield f"{where} {problem}"
            continue
        entry = entries.get(key_of(record))
        if record.get("study") != study.name or entry is None:
            yield f"{where} is {record['run']['label']!r} of {record.get('study')!r}; expected a declared run"
            continue
        training = record["run"]["training"]
        rate, seed = training["learning_rate"], training["seed"]
        if record["run"] != entry.describe(rate, seed):
            yield f"{where} differs from its declaration, {entry.label!r}"
        if (key := (record["role"], entry.label, rate, seed)) in seen:
            yield f"{where} repeats a run: {key}"
        seen.add(key)
        validation = record["validation"]
        if "broke_down" in validation:
            if record["role"] != "tuning" or validation["loss"] is not None:
                yield f"{where} broke down, and has the loss {validation['loss']}; expected none, and tuning alone"
        elif [m["step"] for m in record["metrics"]][-1:] != [entry.steps]:
            yield f"{where} does not reach its last step, {entry.steps}"
        elif validation["targets"] < (enough := targets_of(entry, TUNING_TARGETS)):
            yield f"{where} was judged on {validation['targets']} characters; expected {enough}"
        yield from (f"{where} {problem}" for problem in _role_problems(record, entry, whole))


def _role_problems(record: Record, entry: Entry, records: list[Record]) -> Iterator[str]:
    training = record["run"]["training"]
    rate, seed = training["learning_rate"], training["seed"]
    if record["role"] == "tuning":
        given = entry.rate is not None or entry.rate_of is not None
        if seed not in (TUNING_SEEDS if entry.protocol > 2 else (TUNING_SEED,)) or given:
            yield f"tunes with seed {seed} and the given rate {entry.rate}; expected seed {TUNING_SEED} and no rate"
        elif seed != TUNING_SEED and rate not in (close := close_rates(entry, tried(entry, records))):
            yield f"tunes with seed {seed} at the rate {rate}; expected one of {close}, which seed {TUNING_SEED} left"
        if "test" in record:
            yield "has looked at the test text; expected only reported runs to do so"
        halves = 2 * octaves(entry, rate)
        if not halves.is_integer():
            yield f"has the rate {rate}; expected one of the grid {entry.rates}, its extension or its refinement"
    elif record["role"] == "reported":
        if seed not in entry.seeds:
            yield f"has seed {seed}; expected one of {entry.seeds}"
        if rate != chosen_rate(entry, records):
            yield f"has the rate {rate}; expected {chosen_rate(entry, records)}, the best of tuning, inside the grid"
        test = record.get("test")
        enough = targets_of(entry, TEST_TARGETS if entry.scored == "test" else TUNING_TARGETS)
        if not test or test["loss"] is None or test["part"] != entry.scored or test["targets"] < enough:
            yield f"has the test {test}; expected a loss on at least {enough} characters of the {entry.scored} text"
    else:
        yield f"has the role {record['role']!r}; expected 'tuning' or 'reported'"


def check_records(study: Study, records: Iterable[Record]) -> None:
    """Raise ValueError if records do not follow the declaration of their study; all that is wrong is listed."""
    found = list(problems(study, records))
    require(not found, f"the records of {study.name!r}", found, "records that follow the declared study")
