"""Where the code touches words that other threads or processes change or read: what docs/orderings.md must list."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
FOLDERS = (
    *("host/fanin", "host/fanin_cluster", "host/fanin_torch", "host/fanin_train"),
    *("device/fanin_nic", "tools/fanin_tools"),
)
NOT_READ = {"host/fanin/include"}  # copies of headers

# Accesses of compiled device code, by the functions that make them, and of Python by those of shared_words.
DEVICE_ORDERS = {
    "load_acquire": "acquire",
    "load_acquire_64": "acquire",
    "load_relaxed": "relaxed",
    "store_release": "release",
    "store_release_64": "release",
    "exchange": "acq_rel",
}
PLAIN_ACCESSES = {"load_u32", "store_u32", "load_u64", "store_u64"}
# Words of which plain accesses are looked for: of structs in C by the names of pointers to them, by constants of
# addresses, members of records that compiled code names, and names by which Python finds a member of an array.
OF_STREAMS = ("ended", "stopped", "seen", "qp_destroyed")
OF_COMMUNICATORS = (*OF_STREAMS, "has_joined", "references", "unused", "unused_count")
C_MEMBERS = {
    "ring": ("producer", "consumer", "consumer_seen", "waiting", "wake_at", "overrun"),
    "doorbell": ("device_sleeping", "device_gone", "beat"),
    "stream": OF_STREAMS,
    "communicator": OF_COMMUNICATORS,
    "one": OF_COMMUNICATORS,  # of the list of all
    "request": ("done", "locally_complete", "progress", "lookers"),  # of the driver; of the MPI shim
    "context": ("lost", "stands_still", "checking_health", "beat", "health_checked_ms", "device_version"),
    "pair": ("broken",),
    "remote": ("told", "markers", "expected"),
    "qp": ("state", "receives"),
    "ours": ("receives",),
    "event": ("is_told",),
}
ADDRESSES = (
    *("PRODUCER", "CONSUMER", "CONSUMER_SEEN", "WAITING", "WAKE_AT", "OVERRUN"),
    *("SLEEPING", "GONE", "BEAT", "INTERRUPT_FLAG"),
    *("BROKEN", "WANTED", "HANDLE", "QUEUE_PAIR", "DESTINATION_WANTED"),
)
MEMBERS = (
    *("lane.interrupt", "verbs.broken", "verbs.wanted"),
    *("destination.handle", "destination.queue_pair", "destination.wanted"),
)
SUBSCRIPTS = (
    *("producer", "consumer", "device_sleeping", "device_gone", "beat"),
    *("interrupt", "broken", "wanted", "handle"),
)
MADE_HERE = ("memory.py", "shared_words.py")  # the functions themselves

C_CALL = re.compile(r"__atomic_(\w+)\(")
C_FUNCTION = re.compile(r"^(?!#)[A-Za-z][\w\s*]*?\**(\w+)\(", re.MULTILINE)


class Use(NamedTuple):
    """An access to a word, or a fence (word ""). place: folder/file and function; order: plain, or one of C11."""

    place: str
    order: str
    word: str


def _files(*suffixes: str) -> Iterator[Path]:
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            skipped = any(str(path.relative_to(ROOT)).startswith(name) for name in NOT_READ)
            if path.suffix in suffixes and not skipped:
                yield path


def _place(path: Path, function: str) -> str:
    return f"{path.parent.name}/{path.name} {function}"


# C


def _without_comments(text: str) -> str:
    return re.sub(r"/\*.*?\*/", lambda found: re.sub(r"[^\n]", " ", found[0]), text, flags=re.DOTALL)


def _arguments(text: str, start: int) -> str:
    """What stands between a parenthesis that opens just before `start` and its end."""
    depth, end = 1, start
    while depth:
        depth += {"(": 1, ")": -1}.get(text[end], 0)
        end += 1
    return text[start : end - 1]


def _function_at(text: str, position: int) -> str:
    name = "?"
    for found in C_FUNCTION.finditer(text, 0, position):
        name = found[1]
    return name


def _first_argument(arguments: str) -> str:
    depth = 0
    for index, letter in enumerate(arguments):
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            return arguments[:index]
    return arguments


def _word_of_c(lvalue: str) -> str:
    """`ring->producer` of &ring->producer, `is_shared` of &context->is_shared[qp]."""
    plain = re.sub(r"\[[^]]*\]", "", lvalue.strip())
    plain = re.sub(r"^&?\(*(?:\([^()]*\)\s*)?(.*?)\)*$", r"\1", plain)
    return re.split(r"->|\.", plain)[-1].strip("&() *")


def uses_of_c() -> set[Use]:
    """All atomic accesses and fences of the host's code in C."""
    found = set()
    for path in _files(".c", ".h"):
        text = _without_comments(path.read_text())
        for call in C_CALL.finditer(text):
            arguments = _arguments(text, call.end())
            fence = call[1] == "thread_fence"
            order = "fence" if fence else re.findall(r"__ATOMIC_(\w+)", arguments)[0].lower()
            word = "" if fence else _word_of_c(_first_argument(arguments))
            found.add(Use(_place(path, _function_at(text, call.start())), order, word))
    return found


def plain_uses_of_c() -> set[Use]:
    """Accesses to the members of C_MEMBERS that are not atomic."""
    found = set()
    # Not the address for a futex.
    member = re.compile(rf"(?<!&)\b({'|'.join(C_MEMBERS)})->(?=(?:stream\.|base\.qp_base\.)?(\w+))")
    for path in _files(".c", ".h"):
        text = _without_comments(path.read_text())
        for call in [*C_CALL.finditer(text)][::-1]:
            start, end = call.start(), call.end() + len(_first_argument(_arguments(text, call.end())))
            text = text[:start] + " " * (end - start) + text[end:]
        for access in member.finditer(text):
            if access[2] in C_MEMBERS[access[1]]:
                found.add(Use(_place(path, _function_at(text, access.start())), "plain", access[2]))
    return found


# Python


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _word_of_python(address: ast.expr) -> str:
    """The name of the place of the word: `PRODUCER` of `ring + PRODUCER`, of `ring + int(PRODUCER)`."""
    if isinstance(address, ast.Call):
        converts = _name(address.func) in ("int", "uint64", "U64")
        return _word_of_python(address.args[0]) if converts else _name(address.func)
    if isinstance(address, ast.BinOp):
        return _word_of_python(address.right)
    return address.id if isinstance(address, ast.Name) else ast.unparse(address)


def _nodes(tree: ast.AST, function: str = "module") -> Iterator[tuple[str, ast.AST]]:
    """All nodes, with the function that each stands in."""
    for node in ast.iter_child_nodes(tree):
        yield function, node
        yield from _nodes(node, node.name if isinstance(node, ast.FunctionDef) else function)


def _use_of(node: ast.AST) -> tuple[str, str] | None:
    """Order and word, if a node is an access to a shared word or a fence."""
    if isinstance(node, ast.Call):
        name = _name(node.func)
        if name == "full_fence":
            return "fence", ""
        if name in DEVICE_ORDERS:
            return DEVICE_ORDERS[name], _word_of_python(node.args[0])
        if name in PLAIN_ACCESSES and _word_of_python(node.args[0]) in ADDRESSES:
            return "plain", _word_of_python(node.args[0])
    if isinstance(node, ast.Attribute) and ast.unparse(node) in MEMBERS:
        return "plain", node.attr
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and node.slice.value in SUBSCRIPTS:
        return "plain", node.slice.value
    return None


def _others(tree: ast.Module) -> set[str]:
    """Functions of a module, and names that it imports from elsewhere: another function may be an `exchange`."""
    made_here = {name.removesuffix(".py") for name in MADE_HERE}
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    return own | {
        name.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[-1] not in made_here
        for name in node.names
    }


def uses_of_python() -> set[Use]:
    """The same of the device and the tools, with plain accesses."""
    found = set()
    for path in _files(".py"):
        tree = ast.parse(path.read_text())
        if path.name in MADE_HERE:
            continue
        others = _others(tree)
        for function, node in _nodes(tree):
            use = _use_of(node)
            if use is not None and not (isinstance(node, ast.Call) and _name(node.func) in others):
                found.add(Use(_place(path, function), *use))
    return found
