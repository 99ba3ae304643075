"""Filters with short rows are turned in registers, their rows taken together."""

import pytest

from tests.kernels.tasks import assert_as_nest, tasks_of
from tests.plan.nets import Net
from weft.kernels.elementwise import maps as elementwise
from weft.loops.nodes import Select
from weft.loops.statements import all_exprs
from weft.loops.walk import walk


@pytest.mark.parametrize("shape", [(32, 24, 3, 3), (16, 5, 3, 3), (20, 7, 2, 2)])
def test_filters_are_turned_in_blocks_of_their_rows(shape: tuple[int, ...]) -> None:
    net = Net()
    value = net.op("Transpose", net.input(*shape), perm=(2, 3, 1, 0))
    (task,) = tasks_of(net, value, machine="x86-avx512")
    found = elementwise.generate(task)
    assert found is not None
    assert any(isinstance(node, Select) for node in walk(*all_exprs(found.kernel.body)))
    assert_as_nest(task, found)
