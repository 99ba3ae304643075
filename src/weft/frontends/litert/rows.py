"""Every row; importing the modules of rows enters them into the table."""

from weft.frontends.litert import arithmetic as arithmetic
from weft.frontends.litert import control as control
from weft.frontends.litert import convolution as convolution
from weft.frontends.litert import images as images
from weft.frontends.litert import indexing as indexing
from weft.frontends.litert import linear as linear
from weft.frontends.litert import lstm as lstm
from weft.frontends.litert import normalization as normalization
from weft.frontends.litert import pooling as pooling
from weft.frontends.litert import quantize as quantize
from weft.frontends.litert import recurrent as recurrent
from weft.frontends.litert import reduction as reduction
from weft.frontends.litert import shape as shape
from weft.frontends.litert import slicing as slicing
from weft.frontends.litert import spectra as spectra
from weft.frontends.litert.record import COMPLEX, TABLE, Row


def table() -> dict[str, Row]:
    """Every row by the name of its builtin operator."""
    return TABLE


def names() -> set[str]:
    """Of the builtin operators that have rows, those of complex numbers among them."""
    return {*TABLE, *COMPLEX}
