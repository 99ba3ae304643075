"""What is wrong with a wrong query is said, with the place and what may be meant."""

from __future__ import annotations

import pytest

from weft.errors import UserError
from weft.match.compile import compile_query, compile_rule


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "y = Convv(x)",
            "query: Convv is not an op of Weft (line 1, column 5\n"
            "    y = Convv(x)\n"
            "        ^). Did you mean Conv?",
        ),
        (
            "Conv -> relu",
            "query: relu is no op, no sub-pattern and no name that is given elsewhere "
            "(line 1, column 9\n"
            "    Conv -> relu\n"
            "            ^). Did you mean Relu or PRelu or Elu?",
        ),
        (
            "Conv[kernl=(1,1)]",
            "query: Conv has no attribute or fact kernl (line 1, column 6\n"
            "    Conv[kernl=(1,1)]\n"
            "         ^). Did you mean kernel?",
        ),
        (
            "*[sise=3]",
            "query: no op has attribute or fact sise (line 1, column 3\n"
            "    *[sise=3]\n"
            "      ^). Did you mean size or sizes or shifts?",
        ),
        (
            "Add(x[shap=()], ...)",
            "query: a value has no fact shap (line 1, column 7\n"
            "    Add(x[shap=()], ...)\n"
            "          ^). Did you mean shape?",
        ),
        (
            "Conv[weight.shape=()]",
            "query: Conv has no operand weight; got x, w, b (line 1, column 6\n"
            "    Conv[weight.shape=()]\n"
            "         ^)",
        ),
        (
            "Conv[wide(3)]",
            "query: there is no predicate wide (line 1, column 6\n    Conv[wide(3)]\n         ^)",
        ),
        (
            "Conv -[skale]-> Relu",
            "query: no op has an operand skale (line 1, column 6\n"
            "    Conv -[skale]-> Relu\n"
            "         ^). Did you mean scale or y_scale or x_scale?",
        ),
        (
            "def block = Conv -> Relu\na: blok",
            "query: there is no sub-pattern blok (line 2, column 4\n"
            "    a: blok\n"
            "       ^). Did you mean block?",
        ),
        (
            "def a = Conv -> b\ndef b = a\na",
            "query: sub-pattern a contains itself; got a -> b -> a (line 2, column 9\n"
            "    def b = a\n"
            "            ^)",
        ),
        (
            "y = Relu(x",
            "query: ')' or ',' is expected; got the end (line 1, column 11\n"
            "    y = Relu(x\n"
            "              ^)",
        ),
        (
            "y = Relu(x) z",
            "query: a new statement is expected; got 'z' (line 1, column 13\n"
            "    y = Relu(x) z\n"
            "                ^)",
        ),
        ("", "query: at least one statement is expected; got none"),
        ("// nothing\n", "query: at least one statement is expected; got // nothing"),
        (
            "y = Relu(x) [alpha=]",
            "query: a value is expected; got ']' (line 1, column 20\n"
            "    y = Relu(x) [alpha=]\n"
            "                       ^)",
        ),
        (
            "y = Relu(x)\ny = Neg(x)",
            "query: y is made twice (line 2, column 1\n    y = Neg(x)\n    ^)",
        ),
        (
            "y = Relu(§)",
            "query: this is no part of one; got §) (line 1, column 10\n"
            "    y = Relu(§)\n"
            "             ^)",
        ),
        (
            "Conv ->",
            "query: an op, a name or a number is expected; got the end (line 1, column 8\n"
            "    Conv ->\n"
            "           ^)",
        ),
        (
            "Conv{3,2}",
            "query: a repetition needs a smallest and a largest count in this order; got {3,2} "
            "(line 1, column 5\n    Conv{3,2}\n        ^)",
        ),
        (
            "Conv{2000}",
            "query: a repetition counts to 1000 at most; got {2000} (line 1, column 5\n"
            "    Conv{2000}\n"
            "        ^)",
        ),
        (
            "!(Conv -> Relu)",
            "query: only ops with conditions can be negated by ! (line 1, column 1\n"
            "    !(Conv -> Relu)\n"
            "    ^)",
        ),
        (
            "y = Add(z, x); z = Relu(y)",
            "query: statements need one another in a circle; got y needs z needs y "
            "(line 1, column 1\n    y = Add(z, x); z = Relu(y)\n    ^)",
        ),
        (
            "Conv; a != b",
            "query: there is no name a (line 1, column 7\n    Conv; a != b\n          ^)",
        ),
        (
            "(c: Conv -> (?= c))+",
            "query: a look-around cannot use c, which a repetition binds (line 1, column 17\n"
            "    (c: Conv -> (?= c))+\n"
            "                    ^)",
        ),
    ],
)
def test_wrong_queries(text: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        compile_query(text)
    assert str(caught.value) == message


def test_a_rule_has_one_root() -> None:
    with pytest.raises(UserError) as caught:
        compile_rule("y = Relu(x)\nz = Neg(x)")
    assert str(caught.value) == (
        "pattern: a rule needs one statement that uses, by their names, all others; "
        "got 2 that are not used (y = Relu(x)\nz = Neg(x))"
    )
