# SPDX-License-Identifier: Apache-2.0
"""Image models of timm without their classifiers, with the preprocessing each was trained with."""
from .errors import Error, UsageError


def _source(model, revision):
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
    hub = timm.get_pretrained_cfg(name).hf_hub_id
    return name, {"pretrained_cfg_overlay": {"hf_hub_id": f"{hub}@{revision}"}}


class TimmEncoder:
    def __init__(self, model, device, batch, pooling=None, max_length=None, revision=None):
        if pooling or max_length:
            raise UsageError("--pooling and --max-length are for texts; an image model has its own pooling")
        import timm
        name, extra = _source(model, revision)
        self.net = timm.create_model(name, pretrained=True, num_classes=0, **extra).float().eval().to(device)
        config = timm.data.resolve_model_data_config(self.net)
        self.prepare = timm.data.create_transform(**config, is_training=False)
        self.device, self.window = device, batch
        about = self.net.pretrained_cfg
        self.details = {"architecture": about.get("architecture"), "tag": about.get("tag"),
                        "hub": about.get("hf_hub_id"), "input": list(config["input_size"]),
                        "interpolation": config["interpolation"], "crop": config["crop_pct"]}
        self.versions = {"timm": timm.__version__}

    def embed(self, images):
        """What 'prepare' made of one window of images: float32, rows x dim."""
        import torch
        with torch.inference_mode():
            out = self.net(torch.stack(images).to(self.device))
        if not isinstance(out, torch.Tensor) or out.ndim != 2:
            raise Error(f"{self.details['architecture']} does not give one vector per image; choose a model that pools")
        return out.float().cpu().numpy()
