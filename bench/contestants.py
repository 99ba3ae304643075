"""The contestants of ``bench.peers``: each runs in a process of its own (``bench.worker``).

A maker gets a ``Setting`` and returns a ``Ready``, or raises ``Absent`` with the reason why it
cannot take part.  Peers are imported by their makers, so that a process holds only its own.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from bench.networks import Network, floats_of, images_of, network
from weft import api
from weft.runtime.compiler import find_compiler
from weft.runtime.timing import Caller, Timer, loop_over


@dataclass(frozen=True)
class Setting:
    """What a contestant is to run.

    Attributes:
        network: the file and its inputs.
        threads: how many it may use.
        folder: for what it compiles; an earlier run may have left something there.
        simd: the vector instructions of Weft; any if empty.
    """

    network: Network
    threads: int
    folder: Path
    simd: str = ""


@dataclass(frozen=True)
class Ready:
    """A network that runs.

    Attributes:
        run: runs it once.
        output: the first output of the last run.
        code_bytes: compiled for this network.
        weight_bytes: that it reads beside that.
        note: what was chosen.
        timer: times batches of runs from C, where the contestant is called so.
    """

    run: Callable[[], object]
    output: Callable[[], np.ndarray]
    code_bytes: int = 0
    weight_bytes: int = 0
    note: str = ""
    timer: Timer | None = None


class Absent(Exception):
    """A contestant cannot take part."""


def needed(name: str) -> ModuleType:
    """A peer's module."""
    if importlib.util.find_spec(name.partition(".")[0]) is None:
        raise Absent(f"{name} is not installed")
    return importlib.import_module(name)


# --- Weft -------------------------------------------------------------------------------------


def by_weft(setting: Setting, called_from: Caller = "Python", **options: object) -> Ready:
    arguments: dict[str, Any] = {"threads": setting.threads, **options}
    if setting.simd:
        arguments["simd"] = setting.simd
    net = api.load(setting.network.path)
    try:
        library = net.compile(**arguments).library
    except TypeError as error:  # of an older checkout, which lacks an option
        raise Absent(f"Net.compile: {error}") from error
    inputs = setting.network.inputs
    outputs = library(*inputs)
    timer = loop_over(library, inputs)[0].timer if called_from == "C" else None
    blob = library.files.blob
    return Ready(
        partial(library, *inputs, out=outputs),
        lambda: outputs[0],
        library.path.stat().st_size,
        0 if blob is None else blob.size,
        find_compiler().version,
        timer,
    )


def by_weft_in_floats(setting: Setting, called_from: Caller) -> Ready:
    """Weft on the network of floats that one of integers was made of."""
    floats = replace(setting, network=network(floats_of(setting.network.name)))
    return by_weft(floats, called_from)


# --- PyTorch ----------------------------------------------------------------------------------


@functools.cache
def _built(name: str) -> Any:
    module, _ = importlib.import_module("bench.zoo").build(name)
    return module


def _module(setting: Setting) -> tuple[Any, Any, Any]:
    """PyTorch, the module and its input."""
    if not setting.network.in_zoo:
        raise Absent("there is no PyTorch module of it")
    torch = needed("torch")
    if importlib.util.find_spec("torchvision") is None:
        raise Absent("torchvision is not installed")
    torch.set_num_threads(setting.threads)
    module = _built(images_of(setting.network.name)[0])
    return torch, module, torch.from_numpy(setting.network.inputs[0])


def _module_bytes(module: Any) -> int:
    values = (*module.parameters(), *module.buffers())
    return sum(each.numel() * each.element_size() for each in values)


def _torch_run(torch: Any, module: Any, x: Any) -> tuple[Callable[[], object], list[Any]]:
    kept: list[Any] = [None]

    def run() -> None:
        with torch.inference_mode():
            kept[0] = module(x)

    return run, kept


def _least(run: Callable[[], object], times: int = 5) -> float:
    run()
    run()
    found: list[float] = []
    for _ in range(times):
        start = time.perf_counter()
        run()
        found.append(time.perf_counter() - start)
    return min(found)


def by_eager(setting: Setting, precision: str = "float32") -> Ready:
    """PyTorch as it is, in the better of its two layouts."""
    torch, module, x = _module(setting)
    dtype = getattr(torch, precision)
    module, x = module.to(dtype), x.to(dtype) if x.is_floating_point() else x
    run, kept = _torch_run(torch, module, x)
    note = "contiguous"
    if x.dim() == 4:
        as_given = _least(run)
        last = torch.channels_last
        other = _torch_run(torch, module.to(memory_format=last), x.to(memory_format=last))
        if _least(other[0]) < as_given:
            (run, kept), note = other, "channels last"
        else:
            module.to(memory_format=torch.contiguous_format)
    return Ready(run, lambda: kept[0].float().numpy(), 0, _module_bytes(module), note)


def by_inductor(setting: Setting, **options: object) -> Ready:
    torch, module, x = _module(setting)
    chosen = {"freezing": True, **options}
    with torch.inference_mode():
        compiled = torch.compile(module, options=chosen)
    run, kept = _torch_run(torch, compiled, x)
    run()
    code = sum(each.stat().st_size for each in setting.folder.rglob("*.so"))
    return Ready(run, lambda: kept[0].numpy(), code, _module_bytes(module), "frozen")


# --- onnxruntime, OpenVINO --------------------------------------------------------------------


def by_onnxruntime(setting: Setting) -> Ready:
    ort = needed("onnxruntime")
    options = ort.SessionOptions()
    options.intra_op_num_threads = setting.threads
    options.inter_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = ort.InferenceSession(
        setting.network.path, options, providers=["CPUExecutionProvider"]
    )
    binding = session.io_binding()
    for port, array in zip(session.get_inputs(), setting.network.inputs, strict=True):
        binding.bind_input(port.name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
    for port in session.get_outputs():
        binding.bind_output(port.name)
    return Ready(
        lambda: session.run_with_iobinding(binding),
        lambda: binding.get_outputs()[0].numpy(),
        weight_bytes=setting.network.path.stat().st_size,
        note="all optimizations",
    )


def by_openvino(setting: Setting, precision: str = "f32") -> Ready:
    openvino = needed("openvino")
    settings = {
        "INFERENCE_PRECISION_HINT": precision,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": str(setting.threads),
        "NUM_STREAMS": "1",
    }
    model = openvino.Core().compile_model(str(setting.network.path), "CPU", settings)
    request = model.create_infer_request()
    for port, array in zip(model.inputs, setting.network.inputs, strict=True):
        request.set_tensor(port, openvino.Tensor(array, shared_memory=True))
    return Ready(
        request.infer,
        lambda: request.get_output_tensor(0).data,
        weight_bytes=setting.network.path.stat().st_size,
        note=f"{precision} forced",
    )


# --- TVM, IREE --------------------------------------------------------------------------------


def by_tvm(setting: Setting) -> Ready:
    """TVM's Relax with its default pipeline for CPUs, not tuned."""
    tvm, onnx = needed("tvm"), needed("onnx")
    relax = needed("tvm.relax")
    frontend = needed("tvm.relax.frontend.onnx")
    model = frontend.from_onnx(onnx.load(setting.network.path), keep_params_in_input=False)
    cpu = tvm.target.codegen.llvm_get_system_cpu()
    chosen = tvm.target.Target({"kind": "llvm", "mcpu": cpu, "num-cores": setting.threads})
    with chosen:
        built = tvm.compile(model, chosen)
    library = setting.folder / "tvm.so"
    built.export_library(str(library))
    machine = relax.VirtualMachine(built, tvm.cpu())
    inputs = [tvm.runtime.tensor(array) for array in setting.network.inputs]
    kept: list[Any] = [None]

    def run() -> None:
        kept[0] = machine["main"](*inputs)

    def output() -> np.ndarray:
        first = kept[0]
        return (first if hasattr(first, "numpy") else first[0]).numpy()

    return Ready(run, output, library.stat().st_size, note="not tuned")


def by_iree(setting: Setting) -> Ready:
    compiler, runtime = needed("iree.compiler"), needed("iree.runtime")
    source = setting.folder / "network.mlir"
    program = Path(sys.executable).with_name("iree-import-onnx")
    command = [str(program), str(setting.network.path), "-o", str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Absent(f"iree-import-onnx failed: {done.stderr.strip().splitlines()[-1][:200]}")
    code = compiler.compile_file(
        str(source),
        target_backends=["llvm-cpu"],
        input_type="onnx",
        extra_args=["--iree-llvmcpu-target-cpu=host", "--iree-opt-level=O3"],
    )
    driver = "local-sync"
    if setting.threads > 1:
        driver = "local-task"
        runtime.flags.parse_flags(f"--task_topology_group_count={setting.threads}")
    context = runtime.SystemContext(config=runtime.Config(driver))
    module = runtime.VmModule.copy_buffer(context.instance, code)
    context.add_vm_module(module)
    public = [n for n in module.function_names if "$async" not in n and not n.startswith("__")]
    function = context.modules[module.name][public[0]]
    device = context.config.device
    inputs = [runtime.asdevicearray(device, array) for array in setting.network.inputs]
    kept: list[Any] = [None]

    def run() -> None:
        kept[0] = function(*inputs)

    def output() -> np.ndarray:
        first = kept[0] if not isinstance(kept[0], tuple) else kept[0][0]
        return first.to_host()

    return Ready(run, output, len(code), note="-O3")


MAKERS: Mapping[str, Callable[[Setting], Ready]] = {
    "weft": by_weft,
    "weft-tuned": partial(by_weft, tune=True),
    "weft-bfloat16": partial(by_weft, precision="bfloat16"),
    "weft-bfloat16-f4": partial(by_weft, precision="bfloat16", max_rounding=0.012),
    "weft-from-c": partial(by_weft, called_from="C"),
    "weft-float32-from-c": partial(by_weft_in_floats, called_from="C"),
    "eager": by_eager,
    "eager-bfloat16": partial(by_eager, precision="bfloat16"),
    "inductor": by_inductor,
    "inductor-tuned": partial(by_inductor, max_autotune=True),
    "onnxruntime": by_onnxruntime,
    "openvino": by_openvino,
    "openvino-bfloat16": partial(by_openvino, precision="bf16"),
    "tvm": by_tvm,
    "iree": by_iree,
}
PACKAGES: Mapping[str, tuple[str, ...]] = {
    "eager": ("torch",),
    "eager-bfloat16": ("torch",),
    "inductor": ("torch",),
    "inductor-tuned": ("torch",),
    "onnxruntime": ("onnxruntime",),
    "openvino": ("openvino",),
    "openvino-bfloat16": ("openvino",),
    "tvm": ("tvm", "tvm_ffi"),
    "iree": ("iree",),
}
"""What has to be installed where a contestant runs."""
MODULES = ("eager", "eager-bfloat16", "inductor", "inductor-tuned")
"""Contestants that start from a PyTorch module, not from a file."""
CACHED = ("weft", "weft-tuned", "weft-bfloat16", "weft-bfloat16-f4")
"""Contestants that start faster the second time."""


def preload(contestant: str, setting: Setting) -> int:
    """Imports what a contestant needs and builds its module, if it has one.

    Neither counts as time to get ready.

    Returns:
        The bytes of the module's weights, which are in memory from now on.
    """
    for package in PACKAGES.get(contestant, ()):
        needed(package)
    return _module_bytes(_module(setting)[1]) if contestant in MODULES else 0


def runtime_bytes(contestant: str) -> int:
    """Bytes of the shared libraries that a contestant brings."""
    total = 0
    for package in PACKAGES.get(contestant, ()):
        found = importlib.util.find_spec(package)
        for folder in (found.submodule_search_locations or []) if found else []:
            files = [each for each in Path(folder).rglob("*.so*") if not each.is_symlink()]
            total += sum(each.stat().st_size for each in files)
    return total


def reference(network: Network) -> np.ndarray:
    """The first output in double precision by PyTorch, or else by onnxruntime in float32."""
    if network.in_zoo and importlib.util.find_spec("torchvision") is not None:
        torch = importlib.import_module("torch")
        module, _ = importlib.import_module("bench.zoo").build(images_of(network.name)[0])
        x = torch.from_numpy(network.inputs[0])
        with torch.inference_mode():
            return module.double()(x.double() if x.is_floating_point() else x).numpy()
    ready = by_onnxruntime(Setting(network, 1, Path()))
    ready.run()
    return ready.output()


def names(wanted: Sequence[str]) -> list[str]:
    """Those of the table, in its order."""
    return [name for name in MAKERS if name in wanted]
