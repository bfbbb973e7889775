"""What the answers of all ranks to a list of cases say together."""

from __future__ import annotations

from typing import Any

from fanin_tools.errors import ToolError

Answers = list[dict[str, Any]]  # by rank


def wrong_elements(answers: Answers) -> dict[int, int]:
    """Wrong elements over all ranks, by number of the case."""
    wrong: dict[int, int] = {}
    for answer in answers:
        for number, count in answer["wrong"]:
            wrong[number] = wrong.get(number, 0) + count
    return wrong


def count_wrong_elements(answers: Answers) -> dict[int, int]:
    """Wrong elements over all ranks, by number of the case; ToolError if a case failed instead."""
    failure = first_failure(answers)
    if failure is not None:
        raise failure[1]
    return wrong_elements(answers)


def first_failure(answers: Answers) -> tuple[int, ToolError] | None:
    """Number and error of the first case that a rank could not take part in; of several errors one that explains."""
    stopped = [(*answer["stopped"], rank) for rank, answer in enumerate(answers) if answer["stopped"]]
    if not stopped:
        return None
    number, error, rank = min(stopped, key=lambda entry: (entry[0], entry[1]["name"] in SECONDARY_ERRORS, entry[2]))
    return number, ToolError(error["name"], f"rank {rank}: {error['cause']}", error["remedy"])


SECONDARY_ERRORS = ("ABORTED", "PEER_LOST", "FLUSHED")  # of what happened to another rank


def elapsed_seconds(answers: Answers) -> list[float]:
    """Seconds that each of several runs took: from the last rank's start to the last rank's end."""
    starts, ends = (zip(*(answer[key] for answer in answers), strict=True) for key in ("start_ns", "end_ns"))
    return [(max(end) - max(start)) * 1e-9 for start, end in zip(starts, ends, strict=True)]
