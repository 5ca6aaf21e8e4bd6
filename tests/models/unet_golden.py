"""unet_golden.py: writes unet.golden, what Hugging Face's diffusers give for a U-Net of three narrow levels."""
import torch
import torch.nn.functional as F
from diffusers import UNet2DModel

from golden import integers, keep_float64, values, write

keep_float64()
model = UNet2DModel(
    sample_size=8, in_channels=2, out_channels=2, block_out_channels=(8, 16, 16), layers_per_block=1, norm_num_groups=4,
    norm_eps=1e-6, attention_head_dim=None, downsample_padding=0, flip_sin_to_cos=False, freq_shift=1,
    down_block_types=("DownBlock2D", "AttnDownBlock2D", "DownBlock2D"),
    up_block_types=("UpBlock2D", "AttnUpBlock2D", "UpBlock2D"))
images, noise = values("images", (2, 2, 8, 8)), values("noise", (2, 2, 8, 8))
steps = integers("steps", (2,), 1000)
kept = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 1000), 0)[steps].reshape(-1, 1, 1, 1)
noisy = kept.sqrt() * images + (1 - kept).sqrt() * noise


def f(model):
    found = model(noisy, steps).sample
    return F.mse_loss(found, noise), found


write("unet.golden", model, f)
