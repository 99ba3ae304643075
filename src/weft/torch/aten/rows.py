# pyright: basic
"""All modules with rows; importing this one fills the table."""

from weft.torch.aten import (  # noqa: F401
    activation,
    arithmetic,
    attention,
    convolution,
    embedding,
    functions,
    linear,
    normalization,
    pooling,
    recurrent,
    reduction,
    shape,
)
