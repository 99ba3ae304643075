"""Compiled networks read and write what others hold, in place."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import weft
from weft.errors import UserError
from weft.runtime.calls import in_python


@pytest.fixture(scope="module", params=["C", "Python"])
def fast(request: pytest.FixtureRequest) -> weft.CompiledNet:
    """A network whose calls are made in C where they fit, or all by Python."""
    net = weft.trace(lambda x: (weft.ops.relu(x), x + 1), "f32[2,3]").compile(threads=1)
    if request.param == "Python":
        net.library._call = in_python
    return net


GIVEN = np.array([[-1, 2, 3], [4, -5, 6]], np.float32)


def test_outputs_go_where_they_are_asked_for(fast: weft.CompiledNet) -> None:
    first, second = np.empty((2, 3), np.float32), bytearray(24)
    made = fast(GIVEN, out=[first, second])
    assert made[0] is first
    np.testing.assert_array_equal(first, np.maximum(GIVEN, 0))
    np.testing.assert_array_equal(np.frombuffer(second, np.float32).reshape(2, 3), GIVEN + 1)
    single = weft.trace(weft.ops.neg, "f32[2,3]").compile(threads=1)
    assert single(GIVEN, out=first) is first
    np.testing.assert_array_equal(first, -GIVEN)


def test_tensors_in_and_out(fast: weft.CompiledNet) -> None:
    torch = pytest.importorskip("torch")
    made = torch.empty(2, 3), torch.empty(2, 3)
    fast(torch.from_numpy(GIVEN), out=made)
    np.testing.assert_array_equal(made[0].numpy(), np.maximum(GIVEN, 0))
    # What comes out can be handed on without a copy.
    (relu, _) = fast(GIVEN)
    assert torch.from_dlpack(relu).data_ptr() == relu.ctypes.data
    assert memoryview(relu).shape == (2, 3)


def test_tensors_of_bfloat16() -> None:
    torch = pytest.importorskip("torch")
    net = weft.trace(weft.ops.neg, "bf16[2,3]").compile(threads=1)
    made = torch.empty(2, 3, dtype=torch.bfloat16)
    net(torch.from_numpy(GIVEN).bfloat16(), out=made)
    np.testing.assert_array_equal(made.float().numpy(), -GIVEN)


def test_weights_that_are_tensors() -> None:
    torch = pytest.importorskip("torch")
    w = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    net = weft.trace(weft.layers.Linear(2, weight=w, bias=False), "f32[2,3]")
    np.testing.assert_allclose(net.reference(GIVEN)[0], GIVEN @ w.numpy().T)
    other = net.with_weights({"gemm.weight": w * 2})
    np.testing.assert_allclose(other.reference(GIVEN)[0], 2 * GIVEN @ w.numpy().T)
    frozen = weft.trace(lambda a, b: a + b, "f32[2,3]", "f32[2,3]").freeze({"x1": w})
    np.testing.assert_allclose(frozen.reference(GIVEN)[0], GIVEN + w.numpy())


def test_pytorch_is_not_imported() -> None:
    code = "import sys, weft; weft.trace(weft.ops.neg, 'f32[1]'); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_refusals(fast: weft.CompiledNet) -> None:
    read_only = GIVEN.copy()
    read_only.flags.writeable = False
    room = np.empty((2, 3), np.float32)
    for inputs, out, message in (
        (
            [[1, 2, 3]],
            None,
            "input x must be an array, a DLPack tensor or a buffer; got list",
        ),
        ([bytes(20)], None, "input x takes 24 bytes; got a buffer of 20"),
        ([b"", b""], None, "net has 1 inputs: x; got 2 arrays"),
        ([GIVEN], [room], "net has 2 outputs: relu_out, add_out; got 1 arrays"),
        ([GIVEN], [room, bytes(24)], "output add_out must be a writeable array"),
        ([GIVEN], [room, read_only], "output add_out must be a writeable array"),
    ):
        with pytest.raises(UserError) as caught:
            fast(*inputs, out=out)
        assert str(caught.value) == message


def test_outputs_share_no_memory(fast: weft.CompiledNet) -> None:
    memory = np.zeros(18, np.float32)
    first, overlapping, second = (memory[n : n + 6].reshape(2, 3) for n in (0, 3, 6))
    fast(GIVEN, out=[first, second])
    np.testing.assert_array_equal(second, GIVEN + 1)
    with pytest.raises(UserError) as caught:
        fast(GIVEN, out=[first, overlapping])
    assert str(caught.value) == (
        "output add_out must not share memory; got memory that it shares with output relu_out"
    )
    given = GIVEN.copy()
    with pytest.raises(UserError, match="memory that it shares with input x"):
        fast(given, out=[given, second])
    np.testing.assert_array_equal(given, GIVEN)


def test_inputs_that_cannot_be_read_in_place(fast: weft.CompiledNet) -> None:
    for given, message in (
        (np.asfortranarray(GIVEN), "input x must be packed in row-major order; got strides"),
        (GIVEN.astype(np.float64), "input x must be f32[2, 3]; got float64[2, 3]"),
        (GIVEN.astype(">f4"), "input x must be f32[2, 3]; got >f4[2, 3]"),
        (GIVEN[:1], "input x must be f32[2, 3]; got float32[1, 3]"),
    ):
        with pytest.raises(UserError) as caught:
            fast(given)
        assert str(caught.value).startswith(message)
    read_only = GIVEN.copy()
    read_only.flags.writeable = False
    np.testing.assert_array_equal(fast(read_only)[1], GIVEN + 1)
    made = fast(GIVEN)[0]
    assert np.asarray(made, copy=False) is made


def test_tensors_that_cannot_be_given(fast: weft.CompiledNet) -> None:
    torch = pytest.importorskip("torch")
    for given in (
        torch.from_numpy(GIVEN).requires_grad_(),
        torch.empty(2, 3, device="meta"),
    ):
        with pytest.raises(UserError, match="input x cannot be exported by DLPack"):
            fast(given)
