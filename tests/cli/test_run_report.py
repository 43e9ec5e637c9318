"""What a person sees of one run."""

from __future__ import annotations

from rich.console import Console

from ordercast.cli.run_report import count_services, services_table
from tests.check.build import events

ROWS = """
a activate group-timestamp groups=g
b activate unreliable groups=g
b activate group-timestamp groups=h
a multicast m g
a deliver m groups=g service=group-timestamp
b deliver m groups=g service=unreliable
b activate reliable-source groups=g source=a
b deliver n groups=g service=reliable-source
b deliver o groups=g service=reliable-source
"""


def test_it_is_told_who_delivered_how_much_with_which_service_in_which_group() -> None:
    counts = count_services(events(ROWS))
    assert counts == {
        "g": {"a": {"group-timestamp": 1}, "b": {"unreliable": 1, "reliable-source": 2}},
        "h": {"b": {"group-timestamp": 0}},
    }
    console = Console(width=120, record=True)
    console.print(services_table(counts))
    heading, *lines = [line.strip() for line in console.export_text().splitlines()]
    assert heading.split() == ["group", "site", "delivered", "with"]
    assert [" ".join(line.split()) for line in lines] == [
        "g a group-timestamp 1",
        "g b unreliable 1, reliable-source 2",
        "h b nothing",
    ]
