"""The help of `fanin`: two columns that fit into 80 characters, and the commands in groups."""

import inspect
import re
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

DEVICES, PROGRAMS, INSIGHT = "Devices", "Programs", "What happens, and how fast"
TRIALS, SERVERS, ALL = "Tests and simulations", "Servers with several GPUs", "Commands"
PANELS = (DEVICES, PROGRAMS, INSIGHT, TRIALS, SERVERS, ALL)
# What versions of typer show for the value of an option, and what is shown instead.
WORDS = {
    r"<(int|float)( range)?>|\b(INTEGER|FLOAT)( RANGE)?\b": "N",
    r"<(list\[)?str\]?>": "TEXT",
    r"<(list\[)?[Pp]ath\]?>": "PATH",
}
RANGES = {r"(\S+)<=x<=([^];]+)": r"\1 to \2", r"\bx>=([^];]+)": r"from \1"}


class Command(TyperCommand):
    def format_options(self, ctx: Any, formatter: Any) -> None:
        _write_parameters(self, ctx, formatter)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """A program behind -- stands as its metavar says."""
        return [re.sub(r"^[{[]?(\[?-- .*?)[}\]]?\.\.\.$", r"\1", piece) for piece in super().collect_usage_pieces(ctx)]


class Group(TyperGroup):
    """Its subcommands are listed by their `rich_help_panel`."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        _write_parameters(self, ctx, formatter)
        self.format_commands(ctx, formatter)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            command: Any = self.get_command(ctx, name)
            text = " ".join(inspect.cleandoc(command.help or "").partition("\n\n")[0].split())
            groups.setdefault(getattr(command, "rich_help_panel", None) or ALL, []).append((name, text))
        width = max(len(name) for rows in groups.values() for name, _ in rows)
        for panel in sorted(groups, key=PANELS.index):
            with formatter.section(panel):
                formatter.write_dl([(name.ljust(width), text) for name, text in groups[panel]])


class App(typer.Typer):
    def __init__(self, **settings: Any) -> None:
        super().__init__(cls=Group, pretty_exceptions_enable=False, rich_markup_mode=None, **settings)

    def command(self, name: str | None = None, **settings: Any) -> Any:
        return super().command(name, cls=Command, **settings)


def _write_parameters(command: Any, ctx: Any, formatter: Any) -> None:
    sections: dict[str, list[tuple[str, str]]] = {"argument": [], "option": []}
    for parameter in command.get_params(ctx):
        if record := parameter.get_help_record(ctx):
            names, text = record
            for pattern, word in WORDS.items():
                names = re.sub(pattern, word if parameter.param_type_name == "option" else "", names)
            for pattern, words in RANGES.items():
                text = re.sub(pattern, words, text)
            sections[parameter.param_type_name].append((names.strip(), text))
    for kind, rows in sections.items():
        if rows:
            with formatter.section(f"{kind.capitalize()}s"):
                formatter.write_dl(rows)
