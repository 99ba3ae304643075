"""The networks of the benchmarks by name."""

import numpy as np
import pytest

import bench.networks
import weft
from bench.growth import Size, model
from bench.networks import FAMILIES, batched, ensure, images_of, named, network, path_of


def test_a_group_stands_for_its_members_each_once():
    assert named(["recurrent", "gru_256", "ic"]) == ["lstm_256", "gru_256", "ic"]


def test_the_families_have_forty_networks_each_in_one_of_them():
    assert len(named(["families"])) == sum(map(len, FAMILIES.values())) == 40


def test_another_name_is_refused():
    with pytest.raises(ValueError, match=r"^no such network or group: resnet17$"):
        named(["resnet18", "resnet17"])


def test_a_batch_stands_behind_the_name_of_a_network_or_group():
    assert named(["recurrent@8", "ic@32"]) == ["lstm_256@8", "gru_256@8", "ic@32"]
    assert images_of("ic@32") == ("ic", 32)
    assert images_of("ic") == ("ic", 1)
    assert [batched(name, 8) for name in ("ic", "kws@2")] == ["ic@8", "kws@2"]


@pytest.mark.parametrize("name", ["resnet18@", "resnet18@1", "resnet18@many", "resnet17@8"])
def test_another_batch_is_refused(name):
    with pytest.raises(ValueError, match=f"^no such network or group: {name}$"):
        named([name])


def test_a_batch_is_the_network_of_one_image_with_other_shapes(tmp_path, monkeypatch):
    monkeypatch.setattr(bench.networks, "ZOO", tmp_path)
    path = tmp_path / "little.ts.onnx"
    path.write_bytes(model(Size(1, 8, 16, 2)).SerializeToString())
    x = np.random.default_rng(0).standard_normal((1, 3, 8, 8)).astype(np.float32)
    np.savez(tmp_path / "little.npz", x=x)
    ensure("little@3")
    (images,) = network("little@3").inputs
    assert images.shape == (3, 3, 8, 8)
    assert np.array_equal(images[:1], x)
    alone, together = weft.load(path).compile(), weft.load(path_of("little@3")).compile()
    each = np.concatenate([alone(image[None]) for image in images])
    assert np.allclose(together(images), each, atol=1e-5)
