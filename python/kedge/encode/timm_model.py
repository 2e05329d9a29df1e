# SPDX-License-Identifier: Apache-2.0
"""Image models of timm without their classifiers, with the preprocessing each was trained with."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._errors import Error, UsageError
from .presets import Model

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray


def _source(model: Model, revision: str | None) -> tuple[str, dict[str, Any]]:
    """The name timm takes, and what to change in its settings."""
    import timm
    if model.folder:
        return f"local-dir:{model.name}", {}
    name = model.name if ":" in model.name or "/" not in model.name else f"hf-hub:{model.name}"
    if name.startswith("hf-hub:"):
        return name + (f"@{revision}" if revision else ""), {}
    if not timm.is_model(name):
        import difflib
        near = difflib.get_close_matches(name, timm.list_models(), 3)
        raise UsageError(f"timm has no model '{name}'; " + (f"did you mean {', '.join(near)}?" if near else
                                                           "see timm.list_models(), or kedge-encode --list"))
    if not revision:
        return name, {}
    hub = getattr(timm.get_pretrained_cfg(name), "hf_hub_id", None)
    return name, {"pretrained_cfg_overlay": {"hf_hub_id": f"{hub}@{revision}"}}


class TimmEncoder:
    def __init__(self, model: Model, device: torch.device, batch: int, pooling: str | None = None,
                 max_length: int | None = None, revision: str | None = None) -> None:
        if pooling or max_length:
            raise UsageError("--pooling and --max-length are for texts; an image model has its own pooling")
        import timm
        from timm.data.config import resolve_model_data_config
        from timm.data.transforms_factory import create_transform
        name, extra = _source(model, revision)
        self.net = timm.create_model(name, pretrained=True, num_classes=0, **extra).float().eval().to(device)
        config = resolve_model_data_config(self.net)
        self.prepare = create_transform(**config, is_training=False)
        self.device, self.window = device, batch
        about: Any = self.net.pretrained_cfg
        self.details = {"architecture": about.get("architecture"), "tag": about.get("tag"),
                        "hub": about.get("hf_hub_id"), "input": list(config["input_size"]),
                        "interpolation": config["interpolation"], "crop": config["crop_pct"]}
        self.versions = {"timm": timm.__version__}

    def embed(self, images: list[torch.Tensor]) -> NDArray[np.float32]:
        """What 'prepare' made of one window of images: float32, rows x dim."""
        import torch
        with torch.inference_mode():
            out = self.net(torch.stack(images).to(self.device))
        if not isinstance(out, torch.Tensor) or out.ndim != 2:
            raise Error(f"{self.details['architecture']} does not give one vector per image; choose a model that pools")
        return out.float().cpu().numpy()
