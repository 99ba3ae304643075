"""Errors: as JSON, of the standard output, of commands that compilers are called by."""

import json
import os
import subprocess
import sys

import pytest

from tests.cli.commands import bad
from weft.errors import UserError
from weft.runtime.compiler import Compiler, find_compiler, find_cxx
from weft.runtime.measure import compiler_named


@pytest.mark.parametrize(
    ("line", "command", "rule"),
    [
        ("run no-such-file.onnx", "main run", "'no-such-file.onnx' does not exist"),
        ("export DIGITS", "main export", "Missing option '-o'"),
        ("run DIGITS --bogus", "main run", "No such option '--bogus'"),
        ("bench DIGITS --seconds nan", "main bench", "nan is not a finite number above 0"),
        ("weave", "main", "No such command 'weave'"),
    ],
)
def test_wrong_usage_is_json_where_that_is_asked_for(line, command, rule, digits):
    words = [str(digits) if word == "DIGITS" else word for word in line.split()]
    told = json.loads(bad(*words, "--json", code=2))["error"]
    assert rule in told.pop("rule")
    fix = f"Try '{command} --help' for help."
    assert told == {"kind": "usage", "got": "", "where": command, "fix": fix}
    assert bad(*words, code=2).startswith(f"Usage: {command}")


def test_bugs_are_json_where_that_is_asked_for(digits, monkeypatch):
    monkeypatch.setattr("weft.api.planned.make", lambda *_, **__: {}["missing"])
    told = json.loads(bad("plan", digits, "--json", code=70))["error"]
    assert told["kind"] == "bug"
    assert "KeyError: 'missing'" in told["message"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no full device")
@pytest.mark.parametrize("line", ["ops", "--help", "run --help", "targets --json"])
def test_output_without_room_is_no_bug(line):
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "weft", *line.split()]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    if "--json" in line:
        assert json.loads(done.stderr)["error"]["rule"] == "standard output must be writable"
    else:
        wanted = "error: standard output must be writable\n  got: No space left on device\n"
        assert done.stderr == wanted
    assert done.returncode == 1


def test_commands_of_compilers_need_whole_quotations(monkeypatch):
    monkeypatch.setenv("CC", 'gcc "')
    monkeypatch.setenv("CXX", "g++ '")
    with pytest.raises(UserError, match=r"^CC must be a command as a shell takes it; got"):
        find_compiler()
    with pytest.raises(UserError, match=r"^CXX must be a command as a shell takes it; got"):
        find_cxx(Compiler(("gcc",), "gcc", ""))
    with pytest.raises(UserError, match=r"^the compiler must be a command as a shell takes it"):
        compiler_named('gcc -DX="')


def test_compilers_may_be_named_from_the_current_folder(tmp_path, monkeypatch):
    compiler = find_compiler()
    script = tmp_path / "compile"
    script.write_text(f'#!/bin/sh\nexec {" ".join(compiler.command)} "$@"\n')
    script.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    found, flags = compiler_named("./compile -O1")
    assert (found.command, flags) == ((str(script),), ("-O1",))


def test_what_is_no_array_is_not_taken_for_pickled_data(digits):
    told = bad("verify", digits, "--expect", digits)
    assert told.endswith(f"got: {digits}: its content is no array's\n")
