"""resnet_golden.py: writes resnet18.golden and resnet50.golden, what torchvision's models give, narrow and in training."""
import torch.nn.functional as F
from torchvision.models.resnet import BasicBlock, Bottleneck, ResNet

from golden import integers, values, write

images, labels = values("images", (4, 3, 40, 40)), integers("labels", (4,), 7)


def f(model):
    logits = model(images)
    return F.cross_entropy(logits, labels), logits


# The narrowest model that torchvision makes is 64 wide: ResNet-18 has all of its blocks, ResNet-50 one a stage.
write("resnet18.golden", ResNet(BasicBlock, [2, 2, 2, 2], num_classes=7), f, rate=0.005)
write("resnet50.golden", ResNet(Bottleneck, [1, 1, 2, 1], num_classes=7), f, rate=0.005)
