"""ONNX models as descriptors, on tiny models made here."""

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from memvec.errors import FileFormatError, InvalidTypeError, InvalidValueError
from memvec.images import (
    OnnxConfig,
    OnnxDescriptor,
    made_up_scene,
    open_descriptor,
    read_onnx_config,
    save_descriptor,
)
from memvec.images._onnx import model_input

INFO = TensorProto.FLOAT


def save_model(path, nodes, outputs, shape=(1, 3, 8, 8)):
    image = helper.make_tensor_value_info("image", INFO, shape)
    graph = helper.make_graph(nodes, "tiny", [image], outputs)
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)


@pytest.fixture
def folder(tmp_path):
    """A model whose outputs are its input and the means of its channels."""
    nodes = [
        helper.make_node("Identity", ["image"], ["same"]),
        helper.make_node("GlobalAveragePool", ["image"], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["means"]),
    ]
    outputs = [
        helper.make_tensor_value_info("same", INFO, (1, 3, 8, 8)),
        helper.make_tensor_value_info("means", INFO, (1, 3)),
    ]
    save_model(tmp_path / "tiny.onnx", nodes, outputs)
    return tmp_path


def descriptor(folder, **settings):
    config = {"model": "tiny.onnx", "size": [8, 8], **settings}
    (folder / "tiny.json").write_text(json.dumps(config))
    return OnnxDescriptor.read(folder / "tiny.json")


def test_output_of_the_model_is_the_vector(folder):
    model = descriptor(folder, output="means", fit="stretch")
    pixels = np.full((20, 30, 3), (30, 40, 0), dtype=np.uint8)
    np.testing.assert_allclose(model.describe(pixels), [0.6, 0.8, 0.0], atol=1e-6)
    assert model.dim == 3
    assert repr(model) == "OnnxDescriptor(tiny.onnx, dimension 3)"


@pytest.mark.parametrize(
    ("pooling", "expected"),
    [
        ("mean", lambda channel: channel.mean()),
        ("max", lambda channel: channel.max()),
        ("gem", lambda channel: (channel.astype(float) ** 3).mean() ** (1 / 3)),
    ],
)
def test_positions_are_pooled(folder, pooling, expected):
    model = descriptor(folder, pooling=pooling, scale=1.0)
    pixels = made_up_scene(0, height=8, width=8, n_discs=250)
    vector = np.array([expected(np.maximum(pixels[:, :, c], 1e-6)) for c in range(3)])
    np.testing.assert_allclose(model.describe(pixels), vector / np.linalg.norm(vector), atol=1e-5)


def test_unpooled_output_is_flattened(folder):
    pixels = made_up_scene(0, height=8, width=8, n_discs=250)
    flat = pixels.transpose(2, 0, 1).ravel() / np.linalg.norm(pixels.astype(float))
    np.testing.assert_allclose(descriptor(folder).describe(pixels), flat, atol=1e-6)


def test_channels_last_are_pooled_too(tmp_path):
    nodes = [helper.make_node("Identity", ["image"], ["same"])]
    output = helper.make_tensor_value_info("same", INFO, (1, 8, 8, 3))
    save_model(tmp_path / "tiny.onnx", nodes, [output], shape=(1, 8, 8, 3))
    model = descriptor(tmp_path, layout="NHWC", pooling="mean")
    pixels = np.full((8, 8, 3), (30, 0, 40), dtype=np.uint8)
    np.testing.assert_allclose(model.describe(pixels), [0.6, 0.0, 0.8], atol=1e-6)


def test_input_is_normalised_channel_by_channel():
    config = OnnxConfig("m", size=(8, 8), mean=(0.5, 0.25, 0.0), std=(0.5, 0.25, 2.0))
    pixels = np.full((8, 8, 3), (255, 0, 255), dtype=np.uint8)
    values = model_input(pixels, config)
    assert values.shape == (1, 3, 8, 8)
    np.testing.assert_allclose(values[0, :, 0, 0], [1.0, -1.0, 0.5], atol=1e-6)
    swapped = model_input(pixels, OnnxConfig("m", size=(8, 8), channels="BGR", layout="NHWC"))
    assert swapped.shape == (1, 8, 8, 3)
    np.testing.assert_array_equal(swapped[0, 0, 0], [1.0, 0.0, 1.0])


def marked(height, width):
    """A photograph whose columns count up from 0."""
    return np.dstack([np.tile(np.arange(width, dtype=np.uint8), (height, 1))] * 3)


def test_crop_takes_the_middle():
    config = OnnxConfig("m", size=(8, 8), fit="crop", scale=1.0)
    np.testing.assert_array_equal(model_input(marked(8, 16), config)[0, 0, 0], np.arange(4, 12))
    half = OnnxConfig("m", size=(8, 8), fit="crop", crop_share=0.5, scale=1.0)
    np.testing.assert_array_equal(model_input(marked(16, 16), half)[0, 0, 0], np.arange(4, 12))


def test_pad_keeps_everything_on_black():
    config = OnnxConfig("m", size=(8, 16), fit="pad", scale=1.0)
    row = model_input(marked(8, 8) + np.uint8(1), config)[0, 0, 0]
    np.testing.assert_array_equal(row, [*[0] * 4, *range(1, 9), *[0] * 4])


def test_config_is_read_from_toml_and_json(folder):
    (folder / "a.toml").write_text('model = "tiny.onnx"\nsize = [8, 8]\nmean = [0.5, 0.5, 0.5]')
    (folder / "a.json").write_text(
        '{"model": "tiny.onnx", "size": [8, 8], "mean": [0.5, 0.5, 0.5]}'
    )
    assert read_onnx_config(folder / "a.toml") == read_onnx_config(folder / "a.json")


def test_saved_model_needs_no_other_file(folder):
    model = descriptor(folder)
    save_descriptor(model, folder / "saved")
    (folder / "tiny.onnx").unlink()
    again = open_descriptor(folder / "saved")
    np.testing.assert_array_equal(
        again.describe(made_up_scene(1)), model.describe(made_up_scene(1))
    )
    assert again.config == model.config


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("model = ", "is neither TOML nor JSON"),
        ("size = [8, 8]", "does not name a model"),
        ('model = "m"\ncolour = 1', "has an unknown setting, 'colour'"),
    ],
)
def test_malformed_config_is_refused(tmp_path, text, complaint):
    (tmp_path / "a.toml").write_text(text)
    with pytest.raises(FileFormatError, match=complaint):
        read_onnx_config(tmp_path / "a.toml")


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"layout": "CHW"}, "'layout' parameter of OnnxConfig must be one of 'NCHW', 'NHWC'"),
        ({"size": [8]}, "'size' parameter of OnnxConfig must be a list of 2 numbers"),
        ({"size": [8, 0]}, "'size' parameter of OnnxConfig must be an integer >= 1"),
        ({"std": [1, 0, 1]}, "'std' parameter of OnnxConfig must be a number in"),
        ({"crop_share": 2}, "'crop_share' parameter"),
        ({"gem_power": 0}, "'gem_power' parameter"),
        ({"output": 3}, "'output' parameter of OnnxConfig must be a text"),
    ],
)
def test_impossible_config_is_refused(settings, complaint):
    with pytest.raises(InvalidValueError, match=complaint):
        OnnxConfig("m", **settings)


def test_text_is_no_mean():
    with pytest.raises(InvalidTypeError, match="'mean' parameter of OnnxConfig must be a number"):
        OnnxConfig("m", mean=("a", 0, 0))


def test_file_that_is_no_model_is_refused(tmp_path):
    (tmp_path / "tiny.onnx").write_bytes(b"nothing")
    with pytest.raises(FileFormatError, match=r"tiny\.onnx is not an ONNX model"):
        descriptor(tmp_path).describe(made_up_scene(0))


def test_unknown_output_is_refused(folder):
    with pytest.raises(FileFormatError, match="has no output 'logits'; it has same, means"):
        descriptor(folder, output="logits").describe(made_up_scene(0))


def test_wrong_input_size_is_refused(folder):
    with pytest.raises(FileFormatError, match=r"tiny\.onnx refuses its input"):
        descriptor(folder, size=[9, 9]).describe(made_up_scene(0))


def test_output_without_a_row_for_the_image_is_refused(tmp_path):
    nodes = [helper.make_node("ReduceMean", ["image"], ["mean"], axes=[0, 1, 2], keepdims=0)]
    save_model(tmp_path / "tiny.onnx", nodes, [helper.make_tensor_value_info("mean", INFO, (8,))])
    with pytest.raises(FileFormatError, match=r"returns shape \(8,\)"):
        descriptor(tmp_path).describe(made_up_scene(0))
