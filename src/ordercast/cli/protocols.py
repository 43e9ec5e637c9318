"""`ordercast protocols`: which protocols there are, and what each guarantees under which faults."""

import json
import math
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from ordercast.core import Bounds, Contract, Options, Protocol, UsageError
from ordercast.protocols import find_protocol, find_protocols

README_LINES = 12
"""Enough for what it is and what it gives; the rest is for an editor. The paragraph that is begun is ended."""

TABLE_WIDTH_MIN = 120
"""In a narrower terminal the table of all protocols would be columns of single words."""


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("protocols")(protocols)


def protocols(
    name: Annotated[str | None, typer.Argument(help="Tell everything about this one.")] = None,
    matrix: Annotated[bool, typer.Option("--matrix", help="Which order each keeps, found by running them.")] = False,
    runs: Annotated[int, typer.Option(min=1, help="With --matrix: for each algorithm and network.")] = 100,
    write: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --matrix: write it there too, as Markdown.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> int:
    """List the protocols: guarantees, the faults under which they hold, and what a crash means for the others.

    Example: ordercast protocols sequencer
    """
    if matrix:
        if name is not None:
            raise UsageError(f"--matrix shows all protocols; leave out {name!r}")
        from ordercast.cli.matrix import show_matrix

        return show_matrix(as_json, write, runs)
    if name is not None:
        protocol = find_protocol(name)
        if as_json:
            print(json.dumps(describe(protocol), indent=2))
        else:
            _show_one(protocol)
        return 0
    known = list(known_protocols().values())
    if as_json:
        print(json.dumps({"protocols": [describe(each) for each in known]}, indent=2))
    else:
        _show_all(known)
    return 0


def known_protocols() -> dict[str, type[Protocol]]:
    """All that can be chosen; a warning for each that an installed package brings and that cannot."""
    found, problems = find_protocols()
    for problem in problems:
        print(f"warning: {problem}", file=sys.stderr)
    return found


def describe(protocol: type[Protocol]) -> dict[str, Any]:
    """A protocol's contract as plain values."""
    contract = protocol.contract
    return {
        "name": contract.name,
        "title": contract.title,
        "paper": contract.paper,
        "guarantees": list(contract.guarantees),
        "faults": list(contract.faults),
        "crash": contract.crash,
        "in_short": {"order": protocol.arrangement.order, "crash": protocol.arrangement.crash},
        "promised": bound_formulas(contract),
        "options": msgspec.to_builtins(contract.options()),
        "branches": list(contract.branches),
        "single_source": contract.single_source,
        "several_groups": contract.several_groups,
        "explicit_destinations": contract.explicit_destinations,
        "services": {service: list(names) for service, names in contract.services.items()},
        "roles": list(contract.roles),
        "messages": [message.__name__ for message in protocol.packets],
    }


# ---------------------------------------------------------------------- bounds, in symbols
_IN_THE_README = "what the README says"


def bound_formulas(contract: Contract) -> dict[str, str]:
    """Property -> its promised time in terms of phi_p, phi_n and options: `delta + 4 phi_p + 3 phi_n`.

    A contract promises by a function; that it is linear is found out by asking it.
    """
    options = contract.options()
    nothing = contract.promised(Bounds(0.0, 0.0), options)
    return {name: _formula(contract, options, name, constant) for name, constant in nothing.items()}


def _formula(contract: Contract, options: Options, name: str, constant: float) -> str:
    def ask(phi_p: float, phi_n: float, given: Options = options) -> float:
        return contract.promised(Bounds(phi_p, phi_n), given)[name]

    if contract.promised(Bounds(1.0, 1.0, sites=9), options)[name] != ask(1.0, 1.0):
        return _IN_THE_README
    terms = list(_option_terms(contract, options, name, constant))
    of_phi_p, of_phi_n = ask(1.0, 0.0) - constant, ask(0.0, 1.0) - constant
    if not math.isclose(ask(3.0, 5.0), constant + 3 * of_phi_p + 5 * of_phi_n):
        return _IN_THE_README
    rest = constant - sum(getattr(options, option) * factor for factor, option in terms)
    words = [_term(factor, option) for factor, option in terms]
    words += [_term(of_phi_p, "phi_p"), _term(of_phi_n, "phi_n")]
    if abs(rest) > 1e-9:
        words.append(f"{rest:g}")
    return " + ".join(filter(None, words)) or "0"


def _option_terms(contract: Contract, options: Options, name: str, constant: float) -> Iterator[tuple[float, str]]:
    for field in msgspec.structs.fields(contract.options):
        value = getattr(options, field.name)
        if isinstance(value, float):
            step = value or 1.0
            changed = msgspec.structs.replace(options, **{field.name: value + step})
            factor = (contract.promised(Bounds(0.0, 0.0), changed)[name] - constant) / step
            if abs(factor) > 1e-9:
                yield factor, field.name


def _term(factor: float, symbol: str) -> str:
    if abs(factor) < 1e-9:
        return ""
    return symbol if math.isclose(factor, 1.0) else f"{factor:g} {symbol}"


# ---------------------------------------------------------------------- for people
def _show_all(known: list[type[Protocol]]) -> None:
    from rich.text import Text

    console = _console(160)
    if console.width >= TABLE_WIDTH_MIN:
        console.print(_table(known))
    else:
        for protocol in known:
            contract = protocol.contract
            console.print(Text.assemble((contract.name, "bold"), f": {contract.title}"))
            rows = {"guarantees": ", ".join(contract.guarantees), "under": ", ".join(contract.faults)}
            console.print(_grid([*rows.items(), ("a crash", contract.crash)]))
            console.print()
    console.print(Text("What the guarantees mean: docs/properties.md. The faults: docs/faults.md.", "dim"))


def _table(known: list[type[Protocol]]) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 1, 0), header_style="dim")
    for heading, share in (("protocol", None), ("what it is", 3), ("guarantees", 3), ("under", 2), ("a crash", 3)):
        table.add_column(heading, no_wrap=share is None, ratio=share, overflow="fold")
    for protocol in known:
        contract = protocol.contract
        table.add_row(
            Text(contract.name, "bold"),
            Text(contract.title),
            Text(", ".join(contract.guarantees), "green"),
            Text(", ".join(contract.faults), "yellow"),
            Text(contract.crash),
        )
    return table


def _grid(rows: Iterable[tuple[str, str]]) -> Any:
    """Names and texts side by side, in which nothing is cut off: what is too long for a line goes on in the next."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 3, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for name, text in rows:
        grid.add_row(Text(name, "dim"), Text(text))
    return grid


def _show_one(protocol: type[Protocol]) -> None:
    from rich.markdown import Markdown
    from rich.text import Text

    contract = protocol.contract
    console = _console(120)
    console.print(Text.assemble((contract.name, "bold"), f": {contract.title}"))
    formulas = bound_formulas(contract)
    rows = {
        "order": protocol.arrangement.order,
        "paper": contract.paper,
        "guarantees": ", ".join(
            f"{guarantee} (within {formulas[guarantee]})" if guarantee in formulas else guarantee
            for guarantee in contract.guarantees
        ),
        "under": ", ".join(contract.faults),
        "a crash": contract.crash,
        "sources": "sites that do not fail, named in the option sources" if contract.single_source else "any site",
        "addresses": _addresses(contract),
        "messages": ", ".join(message.__name__ for message in protocol.packets),
        "branches": ", ".join(contract.branches),
    }
    rows |= {"roles": ", ".join(contract.roles)} if contract.roles else {}
    services = [("service", f"{service}: {promise}") for service, promise in service_promises(contract).items()]
    options = msgspec.to_builtins(contract.options())
    chosen = [("option", f"{option} = {json.dumps(default)}") for option, default in options.items()]
    console.print(_grid([*rows.items(), *services, *chosen]))
    readme = find_readme(protocol)
    if readme is not None:
        console.print()
        console.print(Text(str(readme), "dim"), overflow="fold")
        console.print(Markdown(opening(readme.read_text(encoding="utf-8"))))


def service_promises(contract: Contract) -> dict[str, str]:
    """Service -> what it promises beside the guarantees that hold whatever a receiver has chosen."""
    of_services = {name for names in contract.services.values() for name in names}
    always = ", ".join(name for name in contract.guarantees if name not in of_services)
    return {
        service: ", ".join(name for name in contract.guarantees if name in names) or f"nothing beside {always}"
        for service, names in contract.services.items()
    }


def opening(text: str) -> str:
    """The first lines of a document in Markdown, up to the end of a paragraph."""
    lines = text.splitlines()
    in_code = False
    for number, line in enumerate(lines):
        if line.startswith("```"):
            in_code = not in_code
        if number >= README_LINES and not in_code and not line.strip():
            lines = lines[:number]
            break
    while lines and (not lines[-1].strip() or lines[-1].startswith("#")):
        lines.pop()
    return "\n".join(lines)


def _addresses(contract: Contract) -> str:
    words = ["several groups at once" if contract.several_groups else "one group at a time"]
    if contract.explicit_destinations:
        words.append("any set of sites")
    return ", or ".join(words)


def find_readme(protocol: type[Protocol]) -> Path | None:
    """The README beside the protocol's module, or above it where several protocols share one; none from outside the
    package."""
    module = sys.modules[protocol.__module__]
    file = Path(module.__file__ or "")
    depth = module.__name__.count(".") + (file.name == "__init__.py")
    return next((each for folder in file.parents[:depth] if (each := folder / "README.md").is_file()), None)


def _console(width: int) -> Any:
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else width, highlight=False)
