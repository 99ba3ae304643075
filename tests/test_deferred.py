"""What is imported when: a start from the cache waits for nothing that it does not use."""

import os
import subprocess
import sys

DIGITS = "examples/digits/digits.onnx"


def test_a_start_from_the_cache_imports_nothing_that_plans(tmp_path):
    code = f"""
import sys, weft
weft.load({DIGITS!r}).compile(threads=1)
needless = ("ops", "match", "rewrite", "surgery", "kernels", "loops", "export", "frontends")
print(*(each for each in needless if f"weft.{{each}}" in sys.modules))
"""
    environment = {**os.environ, "WEFT_CACHE": str(tmp_path), "WEFT_PLUGINS": "off"}
    command = [sys.executable, "-c", code]
    runs = [
        subprocess.run(command, check=True, env=environment, capture_output=True, text=True)
        for _ in range(2)
    ]
    assert "kernels" in runs[0].stdout
    assert runs[1].stdout == "\n"


def test_methods_that_are_imported_late_have_their_signatures():
    code = """
import inspect, weft
assert "overlaps" in inspect.signature(weft.Net.query).parameters
assert weft.Net.plan.__doc__.startswith("Groups, kernels")
class Own(weft.Net):
    def inputs_of(self): return super().simplified().inputs
assert list(Own(weft.trace(weft.ops.neg, "f32[1]").graph).inputs_of()) == ["x"]
"""
    subprocess.run([sys.executable, "-c", code], check=True)
