"""efficientnet_golden.py: writes efficientnet.golden, what torchvision's EfficientNet gives, narrow and in training."""
import torch.nn.functional as F
from torchvision.models.efficientnet import EfficientNet, MBConvConfig

from golden import integers, values, write

images, labels = values("images", (4, 3, 32, 32)), integers("labels", (4,), 7)

stages = [MBConvConfig(*row, width_mult=1, depth_mult=1) for row in
          ((1, 3, 1, 16, 8, 1), (6, 3, 2, 8, 16, 2), (4, 5, 2, 16, 24, 2))]
model = EfficientNet(stages, dropout=0, stochastic_depth_prob=0, num_classes=7, last_channel=40)


def f(model):
    logits = model(images)
    return F.cross_entropy(logits, labels), logits


write("efficientnet.golden", model, f, rate=0.005)
