"""Verdicts for people and programs: text of a failure, JSON, JUnit XML."""

from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

from fanin_conform.suite import FAILED, NOT_RUN, Verdict

Again = Callable[[str], str]  # name of a script -> the command that repeats it


def failure_text(verdict: Verdict, again: Again) -> str:
    """A failed script as text: demands, packets, expected against seen, and the command that repeats it."""
    lines = [f"{verdict.script.name}: {verdict.script.text}", f"demands: {', '.join(verdict.clauses)}"]
    lines += [*verdict.log, verdict.text, f"again: {again(verdict.script.name)}"]
    return "\n".join(lines)


def as_dict(verdicts: list[Verdict], target: str, seed: int, again: Again) -> dict[str, Any]:
    """The whole run, for `--json`."""
    entries = [
        {
            "script": verdict.script.name,
            "clauses": list(verdict.script.clauses),
            "outcome": verdict.outcome,
            "failed_clauses": list(verdict.clauses),
            "text": verdict.text,
            "left_out": list(verdict.left_out),
            "packets": list(verdict.log),
            "again": again(verdict.script.name),
            "seconds": round(verdict.seconds, 4),
        }
        for verdict in verdicts
    ]
    return {"target": target, "seed": seed, "scripts": entries}


def junit(verdicts: list[Verdict], target: str, again: Again) -> bytes:
    """The whole run as JUnit XML."""
    counts = {name: str(sum(verdict.outcome == name for verdict in verdicts)) for name in (FAILED, NOT_RUN)}
    suite = ElementTree.Element("testsuite", name=f"fanin conform {target}", tests=str(len(verdicts)))
    suite.attrib |= {"failures": counts[FAILED], "skipped": counts[NOT_RUN]}
    for verdict in verdicts:
        group, _, name = verdict.script.name.partition("/")
        case = ElementTree.SubElement(suite, "testcase", classname=group, name=name, time=f"{verdict.seconds:.4f}")
        if verdict.outcome == FAILED:
            said = ElementTree.SubElement(case, "failure", message=", ".join(verdict.clauses))
            said.text = failure_text(verdict, again)
        elif verdict.outcome == NOT_RUN:
            ElementTree.SubElement(case, "skipped", message=verdict.text)
    return ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True)
