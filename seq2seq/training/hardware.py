"""What is chosen for the hardware, where the settings leave it open."""

from typing import Any

import torch
from pytorch_lightning.utilities import rank_zero_info


def precision_for(accelerator: Any) -> str:
    """bf16-mixed where the hardware multiplies bf16 faster than fp32."""
    if accelerator in ("auto", "gpu", "cuda") and torch.cuda.is_available():
        fast, what = torch.cuda.is_bf16_supported(including_emulation=False), "this GPU"
    else:
        # An older torch cannot tell.
        able: dict[str, object] = getattr(torch.cpu, "get_capabilities", dict)()
        fast, what = bool(able.get("avx512_bf16") or able.get("amx_bf16")), "this CPU"
    chosen = "bf16-mixed" if fast else "32-true"
    why = "has" if fast else "has no"
    rank_zero_info(f"precision {chosen}: {what} {why} bf16 matrix products")
    return chosen
