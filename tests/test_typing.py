"""What type checkers say of programs: nothing of the examples and of what documents show, and something of a wrong
payload."""

from __future__ import annotations

from pathlib import Path

from mypy import api

from tests.documents.blocks import iterate_blocks

ROOT = Path(__file__).parents[1]

WRONG = """\
from dataclasses import dataclass

import ordercast


@dataclass
class Order:
    item: str


async def send(node: ordercast.Node) -> None:
    orders = await node.join("orders", type=Order)
    await orders.multicast(Order("tea"))
    await orders.multicast(b"tea")
    async for delivery in orders:
        delivery.value.price


def send_and_wait(node: ordercast.SynchronousNode) -> None:
    orders = node.join("orders", type=Order)
    orders.multicast(Order("tea"), confirm=True).offset
    orders.multicast(b"tea")
    for delivery in orders.consume("billing"):
        delivery.value.price
"""


def test_mypy_accepts_every_example_and_refuses_a_wrong_payload_for_a_typed_group(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.py"
    wrong.write_text(WRONG)
    examples = [str(path) for path in sorted((ROOT / "examples").glob("*.py"))]
    # (What is shown of Spark and of simulations is run by tests.)
    shown = [block for block in iterate_blocks("python") if "ordercast.open" in block.text or "connect(" in block.text]
    for number, block in enumerate(shown):
        (tmp_path / f"shown_{number}.py").write_text(f"# {block}\n{block.text}")
        examples.append(str(tmp_path / f"shown_{number}.py"))
    assert len(shown) > 10
    said, complaint, _ = api.run(["--strict", "--config-file", str(ROOT / "pyproject.toml"), *examples, str(wrong)])
    assert complaint == ""
    errors = [line.partition(": error: ") for line in said.splitlines() if ": error: " in line]
    assert [where.rpartition(":")[2] for where, _, _ in errors] == ["14", "16", "22", "24"]
    assert 'of "TypedGroup" matches argument type "bytes"' in errors[0][2]
    assert 'matches argument type "bytes"' in errors[2][2]
    for error in (errors[1], errors[3]):
        assert '"Order" has no attribute "price"' in error[2]
