"""The door that parts of other distributions come through."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper

import weft
from tests.models import networks
from tests.plugins.installed import Install, install
from weft.cli import main
from weft.errors import InternalError, UserError
from weft.frontends.onnx import import_model, save
from weft.ops.table import OPS
from weft.plugins import Kind, Table, Unusable, found
from weft.rewrite.recipes import PIPELINE, pipeline, simplify
from weft.rewrite.rule import Exactness
from weft.runtime.identity import digest_self
from weft.targets.find import target

__all__ = ["install"]

# An op with an attribute, computed by an index expression.
OP = """
from dataclasses import dataclass, replace
from weft.ir.graph import Attributes
from weft.ops.elementwise import FLOATS, like, map_op
from weft.ops.expr import binary

@dataclass(frozen=True)
class TimesAttributes(Attributes):
    factor: float = 2.0

TIMES = map_op(
    "Times",
    FLOATS,
    lambda attributes, x: binary("mul", x, like(x, attributes.factor)),
    lambda attributes, x: x * x.dtype.type(attributes.factor),
    "Multiplies by a number.",
    attributes=TimesAttributes,
)
TIMES = replace(TIMES, domain="test.ops", onnx_name="TimesBy")
"""
RULE = """
from weft.rewrite.rule import Exactness, Rule, StageRules
TWICE = StageRules("form", (Rule("twice-to-times", "y = Add(x, x)",
    lambda match, builder: builder.op("Times", match["x"]), Exactness.BIT_EXACT, "x + x"),))
"""


def test_nothing_is_loaded_before_somebody_asks(install: Install) -> None:
    install(
        "lazy", {"lazy_one.py": "raise RuntimeError('loaded')"}, {"ops": {"Lazy": "lazy_one:OP"}}
    )
    assert "Conv" in OPS
    assert OPS["Conv"].name == "Conv"
    assert "Other" not in OPS
    assert "Lazy" not in OPS
    assert [str(each) for each in OPS.failed] == [
        "the op Lazy of lazy 1.0 cannot be used: RuntimeError: loaded (lazy_one.py, line 1)"
    ]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import nowhere_at_all", "ModuleNotFoundError: No module named 'nowhere_at_all'"),
        ("PART = 3", "it must be an Op of weft.ops.record, but is int"),
        ("OTHER = 3", "AttributeError: module 'broken' has no attribute 'PART'"),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        (OP + "PART = TIMES", "the entry point must have the op's name, which is Times"),
    ],
)
def test_a_plugin_that_fails_is_named_with_its_reason(
    install: Install, text: str, reason: str
) -> None:
    install("broken", {"broken.py": text}, {"ops": {"Part": "broken:PART"}})
    assert OPS.get("Part") is None
    (failed,) = OPS.failed
    assert failed.reason.startswith(reason)
    result = CliRunner().invoke(main, ["plugin", "list", "--json"])
    (record,) = json.loads(result.stdout)
    assert (record["name"], record["state"], record["reason"]) == ("Part", "failed", failed.reason)
    listed = CliRunner().invoke(main, ["ops"])
    assert listed.exit_code == 0
    assert f"warning: {failed}" in listed.stderr.replace("\n", " ")
    # The others work as ever.
    assert len(OPS) == len(OPS.builtin)


def test_names_that_clash_are_refused(install: Install) -> None:
    install("first", {"first_one.py": OP}, {"ops": {"Times": "first_one:TIMES"}})
    install("second", {"second_one.py": OP}, {"ops": {"Times": "second_one:TIMES"}})
    assert "Times" not in OPS
    assert [each.reason for each in OPS.failed] == [
        "second 1.0 has one of the same name",
        "first 1.0 has one of the same name",
    ]


def test_weft_keeps_its_own_names(install: Install) -> None:
    own = OPS["Conv"]
    install("thief", {"thief.py": OP}, {"ops": {"Conv": "thief:TIMES"}})
    assert OPS["Conv"] is own
    assert OPS.failed[0].reason == "Weft itself has this op"


def test_the_switch_leaves_plugins_out(install: Install, monkeypatch) -> None:
    own = digest_self()
    install("times", {"times.py": OP}, {"ops": {"Times": "times:TIMES"}})
    assert "Times" in OPS
    assert digest_self() != own
    monkeypatch.setenv("WEFT_PLUGINS", "off")
    assert "Times" not in OPS
    assert found() == ()
    assert digest_self() == own


def test_what_a_plugin_holds_decides_about_the_cache(install: Install) -> None:
    files = {"times/__init__.py": OP}
    site = install("times", files, {"ops": {"Times": "times:TIMES"}})
    found = {digest_self()}
    for text in "12":
        (site / "times" / "data.txt").write_text(text)
        weft.plugins.refresh()
        found.add(digest_self())
    assert len(found) == 3


def test_an_op_of_a_plugin_is_a_function(install: Install) -> None:
    install("times", {"times_op.py": OP}, {"ops": {"Times": "times_op:TIMES"}})
    net = weft.trace(lambda x: weft.ops.times(x, factor=3), "f32[2]")
    assert [node.op for node in net.graph.nodes] == ["Times"]
    (made,) = net.reference(np.array([1, 2], np.float32))
    np.testing.assert_array_equal(made, [3, 6])
    with pytest.raises(AttributeError, match=r"no op time\. Did you mean times or "):
        weft.ops.time  # noqa: B018


def test_a_function_whose_op_failed_says_why(install: Install) -> None:
    install("broken", {"broken.py": "import nowhere_at_all"}, {"ops": {"Part": "broken:PART"}})
    with pytest.raises(AttributeError, match=r"no op part\. The op Part of broken 1\.0 cannot be"):
        weft.ops.part  # noqa: B018


def test_an_op_and_a_rule_in_one_module(install: Install) -> None:
    entries = {"ops": {"Times": "times:TIMES"}, "rules": {"twice": "times:TWICE"}}
    install("times", {"times.py": OP + RULE}, entries)
    node = helper.make_node("Add", ["x", "x"], ["y"])
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in "xy"]
    model = helper.make_model(helper.make_graph([node], "g", ports[:1], ports[1:]))
    graph, log = simplify(import_model(model))
    assert [each.op for each in graph.nodes] == ["Times"]
    assert log.counts() == {"twice-to-times": 1}
    assert log.exactness is Exactness.BIT_EXACT
    x = np.array([1, -2, 3.5], np.float32)
    net = weft.Net(import_model(model))
    assert "Times" in [each.op for each in net.expanded().graph.nodes]
    np.testing.assert_array_equal(net.compile()(x), x + x)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "R = StageRules('folds', ())",
            "its stage must be clean, form, fold, cheapen, but is 'folds'",
        ),
        ("R = TWICE.rules[0]", "it must be a StageRules of weft.rewrite.rule, but is Rule"),
        ("R = StageRules('fold', (3,))", "its rules must be a tuple of Rules of weft.rewrite.rule"),
        ("R = StageRules('fold', TWICE.rules * 2)", "there is another rule twice-to-times"),
    ],
)
def test_rules_that_are_refused(install: Install, text: str, reason: str) -> None:
    entries = {"ops": {"Times": "times:TIMES"}, "rules": {"twice": "times:R"}}
    install("times", {"times.py": OP + RULE + text}, entries)
    assert pipeline() == PIPELINE
    result = CliRunner().invoke(main, ["rules"])
    assert f"the rule twice of times 1.0 cannot be used: {reason}" in result.stderr.replace(
        "\n", " "
    )


def _custom(domain: str = "test.ops", **attributes: object) -> onnx.ModelProto:
    node = helper.make_node("TimesBy", ["x"], ["y"], domain=domain, name="n", **attributes)
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in "xy"]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(domain, 1)]
    graph = helper.make_graph([node], "g", ports[:1], ports[1:])
    return helper.make_model(graph, opset_imports=opsets)


@pytest.mark.parametrize("attributes", [{}, {"factor": 3.0}])
def test_nodes_of_other_operator_sets(install: Install, tmp_path, attributes) -> None:
    install("times", {"times.py": OP}, {"ops": {"Times": "times:TIMES"}})
    path = tmp_path / "model.onnx"
    onnx.save(_custom(**attributes), path)
    net = weft.load(path)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(net.compile()(x), x * np.float32(attributes.get("factor", 2)))
    # And back.
    save(net.graph, path)
    written = onnx.load(path).graph.node[0]
    assert (written.op_type, written.domain) == ("TimesBy", "test.ops")
    assert weft.load(path).graph.nodes[0].attributes == net.graph.nodes[0].attributes
    net.save(tmp_path / "model.weft")
    assert weft.load(tmp_path / "model.weft").graph.nodes == net.graph.nodes


def test_wrong_uses_of_an_op_of_a_plugin(install: Install) -> None:
    install("times", {"times.py": OP}, {"ops": {"Times": "times:TIMES"}})
    with pytest.raises(UserError, match="has no attribute other"):
        import_model(_custom(other=1))
    with pytest.raises(UserError, match="attribute factor of TimesBy must be FLOAT"):
        import_model(_custom(factor=1))
    with pytest.raises(UserError, match="ONNX has no op TimesBy in elsewhere 1"):
        import_model(_custom("elsewhere"))


def test_who_needs_a_plugin_that_failed_is_told(install: Install) -> None:
    install("times", {"times.py": "1 / 0"}, {"ops": {"Times": "times:TIMES"}})
    with pytest.raises(UserError) as caught:
        import_model(_custom())
    assert "ONNX has no op TimesBy in test.ops 1" in str(caught.value)
    assert "The op Times of times 1.0 cannot be used: ZeroDivisionError" in str(caught.value)


CHIP = """
doc = "A chip."
vector_bytes = 0
registers = 8
flavour = "c89"
flags = ["-mcpu=chip"]
"""
PATH = "from importlib.resources import files\nCHIP = files(__package__) / 'chip.toml'\n"


def test_a_new_processor_is_a_short_file(install: Install) -> None:
    """It differs from another in a memory, and a network is planned for it."""
    text = (
        "like = 'zen4'\ndoc = 'A server.'\nflags = ['-march=znver4']\ncosts.part = 9e9\n"
        "memories = [{name = 'L1'}, {name = 'L2'}, {name = 'L3', bytes = 402653184}, "
        "{name = 'DRAM', bytes_per_cycle = 3}]\n"
    )
    files = {"chips/__init__.py": PATH, "chips/chip.toml": text}
    install("chips", files, {"targets": {"chip": "chips:CHIP"}})
    chip, like = target("chip"), target("zen4")
    memories = (*like.memories[:2], *chip.memories[2:])
    assert (chip.cached, chip.memory) == (384 << 20, 3.0)
    costs = replace(like.costs, part=9e9)
    flags = ("-march=znver4",)
    assert chip == replace(
        like, name="chip", doc="A server.", flags=flags, memories=memories, costs=costs
    )
    plan = weft.load(networks.path_of("digits")).plan("chip", threads=4)
    assert plan.target is not None
    assert plan.target.costs == costs
    assert any("tiled" in step.scheme for step in plan.steps)


def test_targets_that_are_like_each_other(install: Install) -> None:
    path = PATH + "OTHER = files(__package__) / 'other.toml'\n"
    text = "like = '{}'\ndoc = 'A chip.'\n"
    files = {
        "chips/__init__.py": path,
        "chips/chip.toml": text.format("other"),
        "chips/other.toml": text.format("chip"),
    }
    install("chips", files, {"targets": {"chip": "chips:CHIP", "other": "chips:OTHER"}})
    with pytest.raises(UserError, match=r"The target chip of chips 1\.0 cannot be used"):
        target("chip")


def test_a_target_from_a_file(install: Install) -> None:
    files = {"chips/__init__.py": PATH, "chips/chip.toml": CHIP}
    install("chips", files, {"targets": {"chip": "chips:CHIP"}})
    assert target("chip").flags == ("-mcpu=chip",)
    result = CliRunner().invoke(main, ["targets", "--json"])
    assert "chip" in [each["name"] for each in json.loads(result.stdout)]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it lacks doc"),
        (CHIP.replace("vector_bytes = 0", ""), "it lacks vectors.bytes"),
        ("x = [", ""),
        (CHIP + "feature = 3", "feature means nothing. Did you mean features?"),
        (
            CHIP + "[vectors]\nbyte = 3",
            "vectors.byte means nothing. Did you mean bytes?",
        ),
        (CHIP + "[costs]\ntile = 'x'", "costs.tile must be a number, but is 'x'"),
        (CHIP + "integers = 1.5", "integers must be a whole number, but is 1.5"),
        (CHIP + "features = [1]", "features must be a text, but is 1"),
        (CHIP + "features = 'dsp'", "features must be a list, but is 'dsp'"),
        (
            CHIP + "like = 'cortex-m5'",
            "like must be the name of another target, but is 'cortex-m5'",
        ),
        (CHIP + "like = 'chip'", "like must be the name of another target, but is 'chip'"),
        (CHIP.replace('"c89"', '"c17"'), "flavour must be c89, c99, gnu, but is 'c17'"),
        (CHIP.replace("bytes = 0", "bytes = 24"), "vectors.bytes must be 0 or a power"),
        (
            CHIP.replace("bytes = 0", "bytes = true"),
            "vectors.bytes must be a whole number, but is T",
        ),
        (
            CHIP + "[vectors]\nexecuted = 8",
            "vectors.executed must be at most vectors.bytes, but is",
        ),
        (CHIP + "[issue]\nloads = 0", "issue.loads must be positive, but is 0"),
        (CHIP + "[costs.operations]\nexp = -1", "costs.operations.exp must be positive, but is -1"),
        (CHIP + "[[memories]]", "it lacks memories[0].name"),
        (
            CHIP + "[[memories]]\nname = 'L1'",
            "memories[0]: a cache must have bytes and bytes_per_c",
        ),
        (CHIP + "[[memories]]\nname = 'R'\nkind = 'x'", "memories[0].kind must be cache, ram, rom"),
        (
            CHIP + "[[memories]]\nname = 'R'\nkind = 'ram'\nholds = ['heap']",
            "memories[0].holds must be of code, weights, arena, stack, but has 'heap'",
        ),
        (CHIP + "clock = -1", "clock must not be negative, but is -1"),
        (CHIP + "caches = [2, 1]", "memories must be the nearest first, each cache no smaller"),
    ],
)
def test_a_broken_target(install: Install, text: str, reason: str) -> None:
    files = {"chips/__init__.py": PATH, "chips/chip.toml": text}
    install("chips", files, {"targets": {"chip": "chips:CHIP"}})
    with pytest.raises(UserError) as caught:
        target("chip")
    assert f"The target chip of chips 1.0 cannot be used: chip.toml: {reason}" in caught.value.fix
    with pytest.raises(UserError, match="Did you mean x86-avx2"):
        target("x86-avx3")


READER = '''
from weft.errors import UserError
from weft.frontends.source import Frontend
from weft.ops.build import GraphBuilder
from weft.ops.table import OPS
from weft.ir.types import TensorType
from weft.dtypes import DType

def read(path):
    """One op a line, on a vector."""
    builder = GraphBuilder(OPS, path.stem)
    value = builder.input("x", TensorType(DType.F32, (4,)))
    for line in path.read_text().split():
        if line == "Fail":
            raise KeyError(line)
        if line == "Wrong":
            return None
        if line not in OPS:
            raise UserError(f"{line} is not an op", where=str(path))
        value = builder.op(line, value)
    return builder.graph([value])

LINES = Frontend((".lines",), read, "One op a line.", alone=True)
'''


def test_files_of_another_format(install: Install, tmp_path) -> None:
    install("lines", {"lines.py": READER}, {"frontends": {"lines": "lines:LINES"}})
    path = tmp_path / "net.lines"
    path.write_text("Relu\nNeg\n")
    x = np.array([-1, 2, 3, -4], np.float32)
    for _ in range(2):  # the second time from the cache
        np.testing.assert_array_equal(weft.load(path).compile()(x), -np.maximum(x, 0))
    path.write_text("Relu\nNug\n")
    with pytest.raises(UserError, match="Nug is not an op"):
        weft.load(path)
    path.write_text("Wrong")
    with pytest.raises(UserError, match=r"the plugin for .lines files .*NoneType"):
        weft.load(path)
    path.write_text("Fail")
    with pytest.raises(UserError) as caught:
        weft.load(path)
    assert (
        "the frontend lines of lines 1.0 must not fail; got KeyError: 'Fail' (lines.py, line"
        in (str(caught.value))
    )
    with pytest.raises(UserError, match="the file of a network must exist"):
        weft.load(tmp_path / "absent.lines")


def test_a_format_whose_plugin_failed(install: Install, tmp_path) -> None:
    install("lines", {"lines.py": "1 / 0"}, {"frontends": {"lines": "lines:LINES"}})
    path = tmp_path / "net.lines"
    path.write_text("Relu\n")
    with pytest.raises(UserError, match=r"The frontend lines of lines 1\.0 cannot be used"):
        weft.load(path)


def test_built_in_parts_go_through_the_same_door() -> None:
    def accept(_: str, part: object) -> int:
        if not isinstance(part, int):
            raise Unusable("it must be a number")
        return part

    assert dict(Table(Kind.OPS, {"one": 1}, accept)) == {"one": 1}
    with pytest.raises(InternalError, match="built-in op one: it must be a number"):
        Table(Kind.OPS, {"one": "1"}, accept)  # type: ignore[dict-item]
