"""Programs of whole networks agree with the references, on machines of every width."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.plan.nets import nets
from tests.plan.planned import assert_planned

MACHINES = ("generic", "x86-sse2", "x86-avx2", "x86-avx512")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(nets(), st.sampled_from(MACHINES))
def test_random_networks(net, machine):
    graph, inputs = net
    assert_planned(graph, inputs, machine, 1e-4)
