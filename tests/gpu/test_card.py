"""Cards are found, or what is missing is named; none is needed here."""

import pytest

from memvec import gpu
from memvec.errors import DeviceError, InvalidValueError
from memvec.gpu import _card, _packages


def card_of(*capability):
    return gpu.Card(0, "made up", capability, 100)


@pytest.mark.parametrize(
    ("capability", "arch", "ways"),
    [
        ((9, 0), "sm_90a", ("wgmma", "mma", "popcount")),
        ((8, 0), "sm_80", ("mma", "popcount")),
        ((8, 9), "sm_89", ("mma", "popcount")),
        ((7, 5), "sm_75", ("popcount",)),
        ((10, 0), "sm_100", ("popcount",)),
    ],
)
def test_card_has_the_ways_of_its_capability(capability, arch, ways):
    assert (card_of(*capability).arch, card_of(*capability).ways) == (arch, ways)


@pytest.mark.parametrize("device", ["cpu", "cuda:", "cuda:-1", "cuda:x", 0])
def test_device_of_another_name_is_refused(device):
    with pytest.raises(InvalidValueError, match="'device' .* 'cuda' or 'cuda:<number>'"):
        gpu.find_card(device)


def test_missing_driver_is_named(monkeypatch):
    monkeypatch.setattr(_packages, "_DRIVER", "libcuda-that-is-not-there.so")
    assert _packages.driver_version() is None
    monkeypatch.setattr(_card, "driver_version", lambda: None)
    with pytest.raises(DeviceError, match="no driver of NVIDIA"):
        _card._card.__wrapped__(0)


def test_codes_take_a_multiple_of_256_bits():
    assert [gpu.code_bits(length) for length in (256, 258, 384, 2048)] == [256, 512, 512, 2048]
