"""Software Toolkits: a network as C with all that it takes to build, check and ship it.

Templates are read, and what fills them is imported, when a toolkit is made.
"""

from typing import TYPE_CHECKING

from weft.deferred import deferred

if TYPE_CHECKING:
    from weft.export.build import built
    from weft.export.exports import chosen_templates, export_named
    from weft.export.limits import check_room, ram_needed
    from weft.export.package import CLibrary, write_library
    from weft.export.single import SingleFile, check_single, single_file
    from weft.export.steps import tested
    from weft.export.toolkit import Toolkit, check_folder, write

__all__ = [
    "CLibrary",
    "SingleFile",
    "Toolkit",
    "built",
    "check_folder",
    "check_room",
    "check_single",
    "chosen_templates",
    "export_named",
    "ram_needed",
    "single_file",
    "tested",
    "write",
    "write_library",
]

__getattr__ = deferred(
    __name__,
    {
        "CLibrary": "weft.export.package",
        "SingleFile": "weft.export.single",
        "Toolkit": "weft.export.toolkit",
        "built": "weft.export.build",
        "check_folder": "weft.export.toolkit",
        "check_room": "weft.export.limits",
        "check_single": "weft.export.single",
        "chosen_templates": "weft.export.exports",
        "export_named": "weft.export.exports",
        "ram_needed": "weft.export.limits",
        "single_file": "weft.export.single",
        "tested": "weft.export.steps",
        "write": "weft.export.toolkit",
        "write_library": "weft.export.package",
    },
)
