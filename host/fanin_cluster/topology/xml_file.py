"""XML from an untrusted file: elements with their lines, no entities, within bounds.

Topologies need no entities, so a declaration of one is refused: nested entities would fill the memory. An external
document type, which hwloc names, is not fetched.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn
from xml.parsers import expat

from fanin_cluster.topology.machine import TopologyInvalid

MAX_BYTES = 64 << 20  # the largest public topology has 0.4 MB
MAX_ELEMENTS = 500_000
MAX_DEPTH = 64
MAX_SHOWN = 40  # characters of an attribute in an error
WHOLE = re.compile(r"-?[0-9]{1,18}")
REMEDY = "give a topology that NCCL, RCCL or hwloc 2 or newer has written"


@dataclass
class Element:
    """An element: its tag, attributes and children, and the line on which it begins."""

    tag: str
    attributes: dict[str, str]
    line: int
    children: list[Element] = field(default_factory=list)

    def get(self, name: str, default: str = "") -> str:
        return self.attributes.get(name, default)

    def whole(self, name: str) -> int | None:
        """An attribute that is a whole number; None if it is another, or too long for any topology."""
        text = self.get(name).strip()
        return int(text) if WHOLE.fullmatch(text) else None

    def shown(self, name: str) -> str:
        """An attribute as errors name it."""
        return f"{name}={self.get(name)[:MAX_SHOWN]!r}"

    def all(self, tag: str) -> list[Element]:
        """The children with a tag."""
        return [child for child in self.children if child.tag == tag]


def parse(path: Path) -> Element:
    """The root element of a file. Raises TopologyInvalid if it can not be read, is not XML, or is out of bounds."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise TopologyInvalid(f"{path} can not be read: {error.strerror}", "give the path of a file in XML") from None
    if len(data) > MAX_BYTES:
        raise TopologyInvalid(f"{path} has more than {MAX_BYTES >> 20} MiB", REMEDY)
    return _Parser(path).parse(data)


class _Parser:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.open: list[Element] = []
        self.count = 0
        self.root: Element | None = None
        self.expat = expat.ParserCreate()
        self.expat.StartElementHandler = self.start
        self.expat.EndElementHandler = self.end
        self.expat.EntityDeclHandler = self.entity

    def parse(self, data: bytes) -> Element:
        try:
            self.expat.Parse(data, True)
        except expat.ExpatError as error:
            reason = expat.ErrorString(error.code)
            raise TopologyInvalid(f"{self.path}: line {error.lineno}: it is not XML: {reason}", REMEDY) from None
        except (UnicodeDecodeError, LookupError, ValueError) as error:  # an encoding that Python lacks or refuses
            raise TopologyInvalid(f"{self.path}: line 1: it can not be decoded: {error}", REMEDY) from None
        assert self.root is not None  # expat refuses a document without an element
        return self.root

    def refuse(self, cause: str) -> NoReturn:
        raise TopologyInvalid(f"{self.path}: line {self.expat.CurrentLineNumber}: {cause}", REMEDY)

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self.count += 1
        if self.count > MAX_ELEMENTS:
            self.refuse(f"there are more than {MAX_ELEMENTS} elements")
        if len(self.open) >= MAX_DEPTH:
            self.refuse(f"elements are nested more than {MAX_DEPTH} deep")
        element = Element(tag, attributes, self.expat.CurrentLineNumber)
        if self.open:
            self.open[-1].children.append(element)
        else:
            self.root = element
        self.open.append(element)

    def end(self, tag: str) -> None:
        self.open.pop()

    def entity(self, name: str, *declaration: object) -> None:
        self.refuse(f"it declares an entity, {name}, which no topology needs")
