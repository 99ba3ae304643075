"""The models that `bench.torch_models` runs: how each is built, and what it is called with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import torch  # pyright: ignore[reportMissingImports]
from torch import nn  # pyright: ignore[reportMissingImports]

from bench.architectures import FAMILIES, GPT, TEXT, VOCABULARY
from bench.zoo import (
    OWN,
    SEED,
    VISION_OPTIONS,
    VISION_SIZES,
    images,
    settle_batch_norms,
    vary_constants,
    vision,
)

Example = tuple[tuple[Any, ...], dict[str, Any]]
"""Arguments by position and by name."""


@dataclass(frozen=True)
class Model:
    """A model.

    Attributes:
        group: what the table puts it under.
        build: makes it, with random weights.
        example: arguments of a call, for a number of samples.
    """

    group: str
    build: Callable[[], nn.Module]
    example: Callable[[int], Example]


def _args(*makers: Callable[[int], Any]) -> Callable[[int], Example]:
    return lambda batch: (tuple(make(batch) for make in makers), {})


def _kwargs(**makers: Callable[[int], Any]) -> Callable[[int], Example]:
    return lambda batch: ((), {name: make(batch) for name, make in makers.items()})


def _normal(*sizes: int) -> Callable[[int], torch.Tensor]:
    return lambda batch: torch.randn(batch, *sizes)


def _tokens(steps: int) -> Callable[[int], torch.Tensor]:
    return lambda batch: torch.randint(3, VOCABULARY, (batch, steps))


# --- torchvision ------------------------------------------------------------------------------

VIDEO_SIZES = {"s3d": (16, 224), "mvit": (16, 224), "swin3d": (16, 224)}
DETECTOR_SIZES = {"ssd300_vgg16": 300, "default": 320}
SEGMENTED = 256
POOLED = 16


class DetectorBody(nn.Module):
    """What of a detector is a network: backbone with feature pyramid, and heads before NMS.

    The heads behind the pooling of regions get ``pooled`` in its place.
    """

    def __init__(self, detector: Any) -> None:
        super().__init__()
        self.backbone = detector.backbone
        self.head = detector.rpn.head if hasattr(detector, "rpn") else detector.head
        self.region_heads = nn.ModuleList()
        regions = getattr(detector, "roi_heads", None)
        if regions is not None:
            self.region_heads.append(nn.Sequential(regions.box_head, regions.box_predictor))
            for kind in ("mask", "keypoint"):
                if getattr(regions, f"{kind}_head", None) is not None:
                    heads = [getattr(regions, f"{kind}_{part}") for part in ("head", "predictor")]
                    self.region_heads.append(nn.Sequential(*heads))

    def forward(self, x: torch.Tensor, pooled: torch.Tensor | None = None) -> Any:
        features = self.backbone(x)
        listed = [features] if isinstance(features, torch.Tensor) else list(features.values())
        if pooled is None:
            return self.head(listed)
        return self.head(listed), [head(pooled) for head in self.region_heads]


def _vision(name: str) -> Model:
    options = {"weights": None, **VISION_OPTIONS.get(name, {})}
    build = partial(vision.get_model, name, **options)
    return Model("torchvision classification", build, _args(images(VISION_SIZES.get(name, 224))))


def _segmentation(name: str) -> Model:
    build = partial(vision.get_model, name, weights=None, weights_backbone=None)
    return Model("torchvision segmentation", build, _args(images(SEGMENTED)))


def _video(name: str) -> Model:
    frames, side = next((v for k, v in VIDEO_SIZES.items() if name.startswith(k)), (16, 112))
    build = partial(vision.get_model, name, weights=None)
    return Model("torchvision video", build, _args(_normal(3, frames, side, side)))


def _detector(name: str) -> Model:
    def build() -> nn.Module:
        return DetectorBody(vision.get_model(name, weights=None, weights_backbone=None))

    inputs = [images(DETECTOR_SIZES.get(name, DETECTOR_SIZES["default"]))]
    if "rcnn" in name:
        inputs.append(lambda batch: torch.randn(POOLED, 256, 7, 7))
    return Model("torchvision detection (bodies)", build, _args(*inputs))


def _torchvision() -> dict[str, Model]:
    found = {name: _vision(name) for name in vision.list_models(module=vision)}
    modules: list[tuple[Any, Callable[[str], Model]]] = [
        (vision.segmentation, _segmentation),
        (vision.video, _video),
        (vision.detection, _detector),
    ]
    for module, make in modules:
        found |= {name: make(name) for name in vision.list_models(module=module)}
    return found


def _clear_branches(module: nn.Module) -> None:
    """Clears the scale of the last norm of each branch of torchvision's ResNets.

    What their `zero_init_residual` does, which segmentation models and detectors have no option
    for, and timm's ResNets by default: training begins with the shortcuts alone (Goyal and
    others, "Accurate, Large Minibatch SGD", 2017, section 5.1).
    """
    for block in module.modules():
        if isinstance(block, vision.resnet.BasicBlock | vision.resnet.Bottleneck):
            last: Any = getattr(block, "bn3", block.bn2)
            nn.init.zeros_(last.weight)


# --- timm -------------------------------------------------------------------------------------

TIMM = """
botnet26t_256 cait_xxs24_224 coat_lite_tiny coatnet_nano_rw_224 convit_tiny convnextv2_atto
crossvit_9_240 cspresnet50 davit_tiny deit3_small_patch16_224 dla34 dpn48b edgenext_xx_small
efficientformer_l1 efficientnetv2_rw_t efficientvit_b0 ese_vovnet19b_dw fastvit_t8 fbnetc_100
focalnet_tiny_srf gernet_s ghostnet_100 hgnet_tiny hrnet_w18_small inception_next_atto levit_128s
maxvit_rmlp_pico_rw_256 mixer_s32_224 mixnet_s mobilenetv4_conv_small mobileone_s0 mobilevitv2_050
mvitv2_tiny nest_tiny_jx pit_ti_224 poolformer_s12 pvt_v2_b0 repvgg_a0 res2net50_14w_8s resnest14d
rexnet_100 selecsls42 tiny_vit_5m_224 volo_d1_224 xcit_nano_12_p16_224
""".split()


def _timm(name: str) -> Model:
    def build() -> nn.Module:
        import timm  # noqa: PLC0415 # pyright: ignore[reportMissingImports]

        return timm.create_model(name, pretrained=False)

    side = next((size for size in (240, 256) if f"_{size}" in name), 224)
    return Model("timm", build, _args(images(side)))


# --- transformers -----------------------------------------------------------------------------

TRANSFORMERS = """
bert distilbert roberta albert electra mobilebert deberta deberta_v2 gpt2 opt llama qwen2 mistral
gemma bart vit deit beit swin segformer whisper wav2vec2
""".split()


def _family(name: str) -> Model:
    """A family of `bench.architectures` as its users call it: by name, a dataclass returned."""
    what = FAMILIES[name]

    def build() -> nn.Module:
        network: Any = what.build()
        return _with_own_attention(network.inner)

    argument = {
        "tokens": "input_ids",
        "image": "pixel_values",
        "spectrum": "input_features",
        "sound": "input_values",
    }[what.eats]
    makers = {
        "tokens": lambda: _tokens(what.sizes[0]),
        "image": lambda: images(what.sizes[0]),
    }
    make = makers.get(what.eats, lambda: _normal(*what.sizes))()
    return Model("transformers", build, _kwargs(**{argument: make}))


def _with_own_attention(network: Any) -> nn.Module:
    """The network with PyTorch's attention, where it has that: the default of users."""
    try:
        network.set_attn_implementation("sdpa")
    except ValueError:
        network.set_attn_implementation("eager")
    return network


def _t5() -> nn.Module:
    import transformers  # noqa: PLC0415 # pyright: ignore[reportMissingImports]

    own = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
    config = transformers.T5Config(**{**TEXT, **own, "use_cache": False})
    return transformers.T5Model(config)


def _clip() -> nn.Module:
    import transformers  # noqa: PLC0415 # pyright: ignore[reportMissingImports]

    text = {k: v for k, v in TEXT.items() if not k.endswith("_token_id")}
    sight = {**text, "image_size": 32, "patch_size": 8}
    config = transformers.CLIPConfig(
        text_config={**text, "eos_token_id": 2}, vision_config=sight, projection_dim=16
    )
    return transformers.CLIPModel(config)


def _gpt2_head() -> nn.Module:
    import transformers  # noqa: PLC0415 # pyright: ignore[reportMissingImports]

    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**GPT, use_cache=False))


def _transformers() -> dict[str, Model]:
    own = {
        "t5": Model(
            "transformers", _t5, _kwargs(input_ids=_tokens(16), decoder_input_ids=_tokens(8))
        ),
        "clip": Model(
            "transformers", _clip, _kwargs(input_ids=_tokens(16), pixel_values=images(32))
        ),
        "gpt2_lm": Model("transformers", _gpt2_head, _kwargs(input_ids=_tokens(16))),
    }
    return {**{name: _family(name) for name in TRANSFORMERS}, **own}


# --- sequences --------------------------------------------------------------------------------


class TemporalBlock(nn.Module):
    """Two dilated causal convolutions with weight normalization, and a shortcut."""

    def __init__(self, inputs: int, outputs: int, kernel: int, dilation: int) -> None:
        super().__init__()
        self.pad = (kernel - 1) * dilation
        norm = nn.utils.parametrizations.weight_norm
        self.first = norm(nn.Conv1d(inputs, outputs, kernel, dilation=dilation))
        self.second = norm(nn.Conv1d(outputs, outputs, kernel, dilation=dilation))
        self.shortcut = nn.Conv1d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pad = nn.functional.pad
        y = torch.relu(self.first(pad(x, (self.pad, 0))))
        y = torch.relu(self.second(pad(y, (self.pad, 0))))
        return torch.relu(y + self.shortcut(x))


def _tcn() -> nn.Module:
    widths = (32, 64, 64, 64, 64)
    blocks = [
        TemporalBlock(before, after, 3, 2**place)
        for place, (before, after) in enumerate(pairwise(widths))
    ]
    return nn.Sequential(*blocks)


def _own(name: str) -> Model:
    return Model("sequences and others", OWN[name].build, _args(OWN[name].inputs))


def _sequences() -> dict[str, Model]:
    names = ("lstm", "gru", "bilstm", "transformer", "lenet5", "mlp_8192")
    tcn = Model("sequences and others", _tcn, _args(_normal(32, 256)))
    return {**{name: _own(name) for name in names}, "tcn": tcn}


# --- the table --------------------------------------------------------------------------------


def _prefixed(prefix: str, models: Mapping[str, Model]) -> dict[str, Model]:
    return {f"{prefix}{name}": model for name, model in models.items()}


CATALOG: Mapping[str, Model] = MappingProxyType(
    {
        **_sequences(),
        **_prefixed("hf_", _transformers()),
        **_prefixed("timm_", {name: _timm(name) for name in TIMM}),
        **_torchvision(),
    }
)
"""Every model by name."""


@torch.no_grad()
def built(name: str, settled: bool = True) -> tuple[nn.Module, Example]:
    """A model in evaluation mode with realistic statistics, and an example of one sample.

    Args:
        name: of the catalog.
        settled: whether batch norms see data; costs some runs.
    """
    torch.manual_seed(SEED)
    what = CATALOG[name]
    module = what.build()
    if settled:
        _clear_branches(module)
        vary_constants(module)

        def run() -> object:
            args, kwargs = what.example(4)
            return module(*args, **kwargs)

        settle_batch_norms(module, run, 2)
    torch.manual_seed(SEED + 1)
    return module.eval().requires_grad_(False), what.example(1)
