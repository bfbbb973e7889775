"""All ranks' replies to a list of calls, together."""

from typing import Any

from fanin_tools.errors import ToolError

Replies = list[dict[str, Any]]  # by rank
SECONDARY_ERRORS = ("ABORTED", "PEER_LOST", "FLUSHED")  # errors that another rank's failure causes


def wrong_elements(replies: Replies) -> dict[int, int]:
    """Over all ranks, by number of the call."""
    wrong: dict[int, int] = {}
    for reply in replies:
        for number, count in reply["wrong"]:
            wrong[number] = wrong.get(number, 0) + count
    return wrong


def count_wrong_elements(replies: Replies) -> dict[int, int]:
    """As `wrong_elements`. Raises ToolError if a call failed."""
    failure = first_failure(replies)
    if failure is not None:
        raise failure[1]
    return wrong_elements(replies)


def first_failure(replies: Replies) -> tuple[int, ToolError] | None:
    """Number and error of the first call that failed on a rank; of its errors, one that is not SECONDARY."""
    stopped = [(*reply["stopped"], rank) for rank, reply in enumerate(replies) if reply["stopped"]]
    if not stopped:
        return None
    number, error, rank = min(stopped, key=lambda entry: (entry[0], entry[1]["name"] in SECONDARY_ERRORS, entry[2]))
    return number, ToolError(error["name"], f"rank {rank}: {error['cause']}", error["remedy"])


def elapsed_seconds(replies: Replies) -> list[float]:
    """Of each call, from the last rank's start to the last rank's end."""
    starts, ends = (zip(*(reply[key] for reply in replies), strict=True) for key in ("start_ns", "end_ns"))
    return [(max(end) - max(start)) * 1e-9 for start, end in zip(starts, ends, strict=True)]
