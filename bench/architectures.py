"""Architectures of `transformers` at tiny sizes and of `timm`, for `bench.zoo`.

What counts is the shape of the graph, so networks have two layers and few channels where their
library lets them.  Weights are random; `bench.zoo` gives them realistic statistics.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch  # pyright: ignore[reportMissingImports]
from torch import nn  # pyright: ignore[reportMissingImports]


@dataclass(frozen=True)
class Architecture:
    """How a network is built, and what it eats.

    Attributes:
        build: the network.
        eats: ``tokens`` (how many), ``image`` (pixels of a side), ``spectrum`` (bands and
            frames) or ``sound`` (samples).
        sizes: of that.
    """

    build: Callable[[], nn.Module]
    eats: str
    sizes: tuple[int, ...]


# --- transformers -----------------------------------------------------------------------------

VOCABULARY = 97
TEXT: Mapping[str, Any] = MappingProxyType(
    {
        "vocab_size": VOCABULARY,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "max_position_embeddings": 64,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
)
LLAMA: Mapping[str, Any] = MappingProxyType({**TEXT, "num_key_value_heads": 2, "head_dim": 8})
IMAGE: Mapping[str, Any] = MappingProxyType(
    {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "image_size": 32,
        "patch_size": 8,
    }
)
STAGES: Mapping[str, Any] = MappingProxyType(
    {"hidden_sizes": [16, 24, 32, 40], "depths": [1, 1, 2, 1], "image_size": 64}
)
SOUND: Mapping[str, Any] = MappingProxyType(
    {
        **TEXT,
        "conv_dim": (16, 16, 16),
        "conv_kernel": (10, 3, 3),
        "conv_stride": (5, 2, 2),
        "num_feat_extract_layers": 3,
        "num_conv_pos_embeddings": 16,
        "num_conv_pos_embedding_groups": 2,
    }
)
LAYERS: Mapping[str, Any] = MappingProxyType(
    {
        "d_model": 32,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 64,
        "decoder_ffn_dim": 64,
    }
)
GPT: Mapping[str, Any] = MappingProxyType(
    {"vocab_size": VOCABULARY, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
)


class Hidden(nn.Module):
    """A network's first output."""

    def __init__(self, inner: nn.Module, argument: str) -> None:
        super().__init__()
        self.inner = inner
        self.argument = argument

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = self.inner(**{self.argument: x}, return_dict=False)
        return found if isinstance(found, torch.Tensor) else found[0]


ARGUMENTS = {
    "tokens": "input_ids",
    "image": "pixel_values",
    "spectrum": "input_features",
    "sound": "input_values",
}


def _family(
    kind: str, common: Mapping[str, Any], eats: str, *sizes: int, model: str = "", **own: Any
) -> Architecture:
    """A family by its name in `transformers`; ``model`` is its class where not the usual one."""

    def build() -> nn.Module:
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        import transformers  # noqa: PLC0415 # pyright: ignore[reportMissingImports]

        options = {**common, **own, "use_cache": False, "attn_implementation": "eager"}
        if model:
            made = getattr(transformers, model)
            network = made(made.config_class(**options))
        else:
            config = transformers.AutoConfig.for_model(kind, **options)
            network = transformers.AutoModel.from_config(config)
        if kind == "whisper":
            network = network.get_encoder()
        argument = "input_values" if "spectrogram" in kind else ARGUMENTS[eats]
        return Hidden(network, argument)

    return Architecture(build, eats, sizes)


def _text(kind: str, **own: Any) -> Architecture:
    return _family(kind, TEXT, "tokens", 16, **own)


def _llama(kind: str, **own: Any) -> Architecture:
    return _family(kind, LLAMA, "tokens", 16, **own)


def _image(
    kind: str, side: int = 32, common: Mapping[str, Any] = IMAGE, **own: Any
) -> Architecture:
    return _family(kind, common, "image", side, **own)


FAMILIES: Mapping[str, Architecture] = MappingProxyType(
    {
        "albert": _text("albert", embedding_size=16),
        "bert": _text("bert"),
        "camembert": _text("camembert"),
        "convbert": _text("convbert", embedding_size=32, conv_kernel_size=3),
        "deberta": _text("deberta", relative_attention=True, pos_att_type=["c2p", "p2c"]),
        "deberta_v2": _text("deberta-v2", relative_attention=True, pos_att_type=["c2p", "p2c"]),
        "distilbert": _text("distilbert", dim=32, n_layers=2, n_heads=4, hidden_dim=64),
        "electra": _text("electra", embedding_size=16),
        "fnet": _text("fnet"),
        "mobilebert": _text(
            "mobilebert",
            embedding_size=16,
            intra_bottleneck_size=16,
            true_hidden_size=16,
        ),
        "modernbert": _text("modernbert"),
        "mpnet": _text("mpnet"),
        "roberta": _text("roberta"),
        "roformer": _text("roformer", embedding_size=32),
        "squeezebert": _text("squeezebert", embedding_size=32),
        "xlm_roberta": _text("xlm-roberta"),
        "bart": _text("bart", **LAYERS),
        "t5": _text(
            "t5", model="T5EncoderModel", d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4
        ),
        "bloom": _text("bloom", n_layer=2, n_head=4),
        "falcon": _text("falcon"),
        "gemma": _llama("gemma"),
        "gemma2": _llama("gemma2", query_pre_attn_scalar=8, sliding_window=8),
        "gpt2": _family("gpt2", GPT, "tokens", 16),
        "gpt_neo": _text(
            "gpt_neo", num_layers=2, num_heads=4, attention_types=[[["global", "local"], 1]]
        ),
        "gpt_neox": _text("gpt_neox"),
        "gptj": _family("gptj", GPT, "tokens", 16, rotary_dim=4),
        "llama": _llama("llama"),
        "mistral": _llama("mistral", sliding_window=8),
        "opt": _text("opt", ffn_dim=64, word_embed_proj_dim=32),
        "phi": _llama("phi"),
        "qwen2": _llama("qwen2"),
        "qwen3": _llama("qwen3"),
        "beit": _image("beit"),
        "clip_vision": _image("clip", model="CLIPVisionModel"),
        "convnext": _image("convnext", 64, STAGES),
        "deit": _image("deit"),
        "dinov2": _image("dinov2"),
        "mobilevit": _image(
            "mobilevit",
            64,
            STAGES,
            hidden_sizes=[16, 24, 32],
            neck_hidden_sizes=[8, 8, 16, 16, 24, 32, 64],
        ),
        "regnet": _image("regnet", 64, STAGES, groups_width=8, embedding_size=16),
        "resnet": _image("resnet", 64, STAGES, embedding_size=16),
        "segformer": _image("segformer", 64, STAGES, num_attention_heads=[1, 2, 2, 4]),
        "swin": _image(
            "swin",
            32,
            {},
            image_size=32,
            patch_size=4,
            embed_dim=16,
            depths=[2, 2],
            num_heads=[2, 4],
            window_size=4,
        ),
        "vit": _image("vit"),
        "ast": _family(
            "audio-spectrogram-transformer",
            IMAGE,
            "spectrum",
            48,
            32,
            max_length=48,
            num_mel_bins=32,
        ),
        "wav2vec2": _family("wav2vec2", SOUND, "sound", 1600),
        "whisper": _family(
            "whisper",
            {**TEXT, **LAYERS},
            "spectrum",
            16,
            48,
            num_mel_bins=16,
            max_source_positions=24,
        ),
    }
)


# --- timm -------------------------------------------------------------------------------------

TIMM = """
botnet26t_256 caformer_s18 cait_xxs24_224 coat_lite_tiny coatnet_nano_rw_224 convformer_s18
convit_tiny convmixer_768_32 convnext_atto convnextv2_atto crossvit_9_240 cs3darknet_s cspresnet50
davit_tiny deit3_small_patch16_224 densenet121 dla34 dpn48b edgenext_xx_small
efficientformer_l1 efficientformerv2_s0 efficientnet_lite0 efficientnetv2_rw_t efficientvit_b0
ese_vovnet19b_dw fastvit_t8 fbnetc_100 focalnet_tiny_srf gcvit_xxtiny gernet_s ghostnet_100
hardcorenas_a hgnet_tiny hrnet_w18_small inception_next_atto lcnet_050 levit_128s mambaout_femto
maxvit_rmlp_pico_rw_256 mixer_s32_224 mixnet_s mobilenetv3_small_100 mobilenetv4_conv_small
mobileone_s0 mobilevitv2_050 mvitv2_tiny nest_tiny_jx pit_ti_224 poolformer_s12 pvt_v2_b0
regnety_002 repvgg_a0 res2net50_14w_8s resnest14d rexnet_100 selecsls42 starnet_s1 tiny_vit_5m_224
volo_d1_224 xcit_nano_12_p16_224
""".split()
FIXED = (
    "_224 _240 _256 vit cait coat convit crossvit davit efficientformer gcvit levit maxvit mixer "
    "nest pit_ swin tiny_vit volo xcit mvitv2 focalnet"
).split()
"""Parts of the names of those that take images of one size."""


def _timm(name: str) -> Architecture:
    side = 224 if any(each in name for each in FIXED) else 96
    for size in (240, 256):
        if f"_{size}" in name:
            side = size

    def build() -> nn.Module:
        import timm  # noqa: PLC0415 # pyright: ignore[reportMissingImports]

        return timm.create_model(name, pretrained=False)

    return Architecture(build, "image", (side,))


ARCHITECTURES: Mapping[str, Architecture] = MappingProxyType(
    {
        **{f"hf_{name}": each for name, each in FAMILIES.items()},
        **{f"timm_{name}": _timm(name) for name in TIMM},
    }
)
