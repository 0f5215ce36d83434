"""Named arrays and settings in a folder: replaced as a whole, opened without reading them.

::

    synsets.index/
      manifest.json     format, version, settings; of each array its file, type, shape, size, CRC-32
      g000003/          the files of this generation: plain .npy, never changed once named
        vectors.npy
        offsets.npy

`manifest.json` is the only commit point. A save writes a new generation beside the old one, syncs
it, and then replaces the manifest by a rename: at every moment the folder is the old content or the
new. Nothing is ever pickled or unpickled.
"""

from memvec.storage import _disk as disk
from memvec.storage._check import CheckReport, check_saved
from memvec.storage._kinds import (
    CATALOG,
    DESCRIPTOR,
    SHARDS,
    Kind,
    check_free,
    check_kind,
    kind_of,
)
from memvec.storage._manifest import MANIFEST, FileSum
from memvec.storage._mapping import OpenedFile, forget_array, forget_pages, map_file
from memvec.storage._read import MappedFolder, map_folder, open_folder
from memvec.storage._write import write_folder

__all__ = [
    "CATALOG",
    "DESCRIPTOR",
    "MANIFEST",
    "SHARDS",
    "CheckReport",
    "FileSum",
    "Kind",
    "MappedFolder",
    "OpenedFile",
    "check_free",
    "check_kind",
    "check_saved",
    "disk",
    "forget_array",
    "forget_pages",
    "kind_of",
    "map_file",
    "map_folder",
    "open_folder",
    "write_folder",
]
