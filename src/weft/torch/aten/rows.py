# pyright: basic
"""All modules with rows; importing this one fills the table."""

from weft.torch.aten import (  # noqa: F401
    activation,
    arithmetic,
    attention,
    comparison,
    complex_numbers,
    convolution,
    creation,
    embedding,
    fourier,
    functions,
    indexing,
    linear,
    normalization,
    padding,
    pooling,
    quantization,
    recurrent,
    reduction,
    sampling,
    scattering,
    shape,
    slicing,
    sorting,
)
