"""Which task judges which runs, and what a worker makes of the codes of a file."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest

from ordercast.trace.event_file import tidy
from ordercast.trace.schema import Run
from ordercast.verify.plan import TASK_ROWS_MAX, TASK_ROWS_MIN, Assignment, cut


def runs(*files: tuple[str, list[int]]) -> list[Assignment]:
    """For each file the numbers of rows of its runs."""
    return [
        Assignment(Run(f"{name}-{number}"), [name], rows) for name, sizes in files for number, rows in enumerate(sizes)
    ]


def names(tasks: list[list[Assignment]]) -> list[list[str]]:
    return [[each.run.run for each in task] for task in tasks]


def test_every_run_is_in_one_task_and_neighbours_stay_neighbours() -> None:
    random = Random(5)
    for _ in range(200):
        sizes = [
            [random.randrange(0, 900_000) for _ in range(random.randint(1, 12))] for _ in range(random.randint(0, 9))
        ]
        assigned = runs(*((f"file-{number}", own) for number, own in enumerate(sizes)))
        tasks = cut(assigned, random.randint(1, 8))
        assert [each for task in tasks for each in task] == assigned
        assert all(tasks)


def test_a_task_ends_where_a_file_ends() -> None:
    files = [(f"file-{number}", [125_000] * 9) for number in range(12)]
    tasks = cut(runs(*files), 2)
    assert len(tasks) == 6
    for task in tasks:
        assert len({each.files[0] for each in task}) * 9 == len(task), "whole files"


def test_the_only_file_is_shared_by_the_cores_but_not_among_more() -> None:
    tasks = cut(runs(("file", [TASK_ROWS_MIN] * 12)), 3)
    assert [len(task) for task in tasks] == [4, 4, 4]


def test_what_takes_no_time_is_one_task_and_a_large_trace_many() -> None:
    assert len(cut(runs(("a", [10, 10]), ("b", [10])), 8)) == 1
    many = cut(runs(*((f"file-{number}", [TASK_ROWS_MAX // 2]) for number in range(100))), 2)
    assert len(many) == 50
    assert cut([], 2) == []


@pytest.mark.parametrize("values", [1, 5, 40])
def test_codes_are_in_the_order_in_which_their_values_appear(values: int) -> None:
    random = Random(values)
    texts = [f"text-{number}" for number in range(values)]
    for length in (0, 1, 7, 300):
        for absent in (0.0, 0.3, 1.0):
            rows = [None if random.random() < absent else random.randrange(values) for _ in range(length)]
            coded = tidy(pa.DictionaryArray.from_arrays(pa.array(rows, pa.int32()), pa.array(texts)))
            expected = [None if row is None else texts[row] for row in rows]
            assert coded.to_pylist() == expected
            assert coded.dictionary.to_pylist() == [text for text in dict.fromkeys(expected) if text is not None]
