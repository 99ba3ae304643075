"""What ONNX says about an op: inputs, attributes, versions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from onnx import AttributeProto, defs

from weft.records import dataclass

NEWEST: Mapping[str, int] = {
    domain: defs.onnx_opset_version() if domain == "" else 1
    for domain in ("", "ai.onnx.preview.training", "ai.onnx.preview")
}
"""The opset whose meaning the op table has, by domain."""


@dataclass(frozen=True, slots=True)
class AttributeRule:
    """An attribute as the schema has it."""

    type: int
    required: bool
    default: AttributeProto | None


@dataclass(frozen=True, eq=False)
class Signature:
    """One version of an op.

    Attributes:
        op: the op's name; domain: its domain.
        since: the opset that brought this version.
        inputs: names in lower case; the last one stands for all others if ``variadic``.
        required: names of inputs that may not be left out.
        least, most: how many inputs there may be.
        outputs: the largest number of outputs.
        attributes: rules by name.
        schema: ONNX's own record, for function bodies; none for what ONNX does not have.
    """

    op: str
    domain: str
    since: int
    inputs: tuple[str, ...]
    required: tuple[str, ...]
    variadic: bool
    least: int
    most: int
    outputs: int
    attributes: Mapping[str, AttributeRule]
    schema: Any

    @property
    def is_function(self) -> bool:
        """Whether ONNX defines the op by other ops."""
        if self.schema is None:
            return False
        return self.schema.has_function or self.schema.has_context_dependent_function


@cache
def signature(op: str, domain: str, opset: int) -> Signature | None:
    """The op as of an opset; ``None`` if ONNX has no such op there."""
    if not 0 < opset < 1 << 31:
        return None
    try:
        schema: Any = defs.get_schema(op, opset, domain)
    except defs.SchemaError:
        return None
    rules = {
        name: AttributeRule(
            int(rule.type.value),
            rule.required,
            rule.default_value if rule.default_value.type else None,
        )
        for name, rule in schema.attributes.items()
    }
    variadic = bool(schema.inputs) and (
        schema.inputs[-1].option == defs.OpSchema.FormalParameterOption.Variadic
    )
    return Signature(
        op,
        domain,
        schema.since_version,
        tuple(formal.name.lower() for formal in schema.inputs),
        tuple(
            formal.name.lower()
            for formal in schema.inputs
            if formal.option == defs.OpSchema.FormalParameterOption.Single
        ),
        variadic,
        schema.min_input,
        schema.max_input,
        schema.max_output,
        rules,
        schema,
    )
