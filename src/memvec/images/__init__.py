"""Photographs as vectors: SIFT with triangulation embedding or VLAD, or any ONNX model.

Needs the extra ``memvec[images]``; ONNX models also need ``memvec[onnx]``.
"""

from memvec.images._aggregate import democratic_weights, power_law
from memvec.images._cache import DescriptorCache
from memvec.images._describe import Described, describe_photos, training_bags
from memvec.images._descriptor import (
    ImageDescriptor,
    default_descriptor,
    open_descriptor,
    save_descriptor,
)
from memvec.images._folder import Skipped, find_photos
from memvec.images._library import PhotoLibrary
from memvec.images._made_up import made_up_scene, made_up_view
from memvec.images._onnx import OnnxDescriptor
from memvec.images._onnx_config import OnnxConfig, read_onnx_config
from memvec.images._photo import SUFFIXES, Photo, read_photo
from memvec.images._results import FolderReport, PhotoCopy, PhotoDuplicates, PhotoHit, PhotoHits
from memvec.images._sheet import SheetGroup, SheetPhoto, contact_sheet, write_sheet
from memvec.images._sift import SIFT_DIM, SiftConfig, local_descriptors, root_sift
from memvec.images._triangulation import Triangulation
from memvec.images._vlad import Vlad
from memvec.images._vocabulary import learn_vocabulary

__all__ = [
    "SIFT_DIM",
    "SUFFIXES",
    "Described",
    "DescriptorCache",
    "FolderReport",
    "ImageDescriptor",
    "OnnxConfig",
    "OnnxDescriptor",
    "Photo",
    "PhotoCopy",
    "PhotoDuplicates",
    "PhotoHit",
    "PhotoHits",
    "PhotoLibrary",
    "SheetGroup",
    "SheetPhoto",
    "SiftConfig",
    "Skipped",
    "Triangulation",
    "Vlad",
    "contact_sheet",
    "default_descriptor",
    "democratic_weights",
    "describe_photos",
    "find_photos",
    "learn_vocabulary",
    "local_descriptors",
    "made_up_scene",
    "made_up_view",
    "open_descriptor",
    "power_law",
    "read_onnx_config",
    "read_photo",
    "root_sift",
    "save_descriptor",
    "training_bags",
    "write_sheet",
]
