"""mask_rcnn_golden.py: writes mask_rcnn.golden, what torchvision's heads give for a narrow pyramid of two levels; and
mask_rcnn_detections.golden, the boxes that its own choice of proposals and of detections finds."""
import functools
from collections import OrderedDict
from pathlib import Path

import torch
import torch.nn.functional as F
from torchvision.models.detection import roi_heads
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.models.detection.faster_rcnn import FastRCNNPredictor, TwoMLPHead
from torchvision.models.detection.image_list import ImageList
from torchvision.models.detection.mask_rcnn import MaskRCNNHeads, MaskRCNNPredictor
from torchvision.models.detection.roi_heads import RoIHeads, fastrcnn_loss, maskrcnn_loss
from torchvision.models.detection.rpn import RegionProposalNetwork, RPNHead
from torchvision.ops import MultiScaleRoIAlign, roi_align

from golden import initial, integers, values, write

# Of masks torchvision takes more samples in larger boxes; here they are as many in all, as everywhere else.
roi_heads.roi_align = functools.partial(roi_align, sampling_ratio=2)
CHANNELS, CLASSES, SIZE = 8, 4, (64, 96)
features = OrderedDict((str(i), values(f"features{i}", (2, CHANNELS, 16 >> i, 24 >> i))) for i in range(2))
images = ImageList(torch.zeros(2, 3, *SIZE), [SIZE] * 2)
anchors = AnchorGenerator(((16,), (32,)), ((0.5, 1.0, 2.0),) * 2)
rpn = RegionProposalNetwork(anchors, RPNHead(CHANNELS, 3), 0.7, 0.3, 256, 0.5, {"training": 1440, "testing": 1440},
                            {"training": 12, "testing": 12}, 0.7)
pool = lambda size: MultiScaleRoIAlign(["0", "1"], size, 2)
heads = RoIHeads(pool(7), TwoMLPHead(49 * CHANNELS, 10), FastRCNNPredictor(10, CLASSES), 0.5, 0.5, 512, 0.25, None, 0.05,
                 0.5, 8, pool(14), MaskRCNNHeads(CHANNELS, (CHANNELS,) * 4, 1), MaskRCNNPredictor(CHANNELS, CHANNELS, CLASSES))


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.rpn, self.roi_heads = rpn, heads


def boxes(name, shape):
    """Corners (x1, y1) in the left upper part, and sides of 4 to 60."""
    v = (values(name, (*shape, 4)) + 1) / 2
    corner = v[..., :2] * torch.tensor([40.0, 20.0])
    return torch.cat([corner, corner + 4 + v[..., 2:] * torch.tensor([50.0, 38.0])], -1)


# Of 5 sampled anchors an image, and 6 boxes in all, of the classes 0 to 3; two objects an image with masks.
places, near = integers("places", (2, 5), 16 * 24 * 3 + 8 * 12 * 3), integers("near", (2, 5), 2)
near_boxes, proposals, targets = boxes("near_boxes", (2, 5)), boxes("proposals", (2, 3)), boxes("targets", (6,))
classes, shown = integers("classes", (6,), CLASSES), integers("shown", (2, 3), 2)
masks = (values("masks", (2, 2, *SIZE)) > 0).double()


def f(model):
    logits, numbers = model.rpn.head(list(features.values()))
    flat = lambda parts, each: torch.cat([
        p.view(2, -1, each, *p.shape[-2:]).permute(0, 3, 4, 1, 2).reshape(2, -1, each) for p in parts], 1)
    logits, numbers = flat(logits, 1).squeeze(2), flat(numbers, 4)
    all_anchors = anchors(images, list(features.values()))[0]
    coder = model.rpn.box_coder
    target = coder.encode_single(near_boxes.reshape(-1, 4), all_anchors[places.reshape(-1)]).reshape(2, 5, 4)
    chosen = torch.stack([numbers[n][places[n]] for n in range(2)])
    loss = F.smooth_l1_loss(chosen[near > 0], target[near > 0], beta=1 / 9, reduction="sum") / near.numel()
    loss = loss + F.binary_cross_entropy_with_logits(logits.gather(1, places), near.double())
    r = model.roi_heads
    sizes = [SIZE] * 2
    given = list(proposals)
    scores, deltas = r.box_predictor(r.box_head(r.box_roi_pool(features, given, sizes)))
    encoded = r.box_coder.encode_single(targets, proposals.reshape(-1, 4))
    loss = loss + sum(fastrcnn_loss(scores, deltas, [classes], [encoded]))
    found = r.mask_predictor(r.mask_head(r.mask_roi_pool(features, given, sizes)))
    loss = loss + maskrcnn_loss(found, given, [masks[n][shown[n]] for n in range(2)],
                                list(classes.reshape(2, 3)), [torch.arange(3)] * 2)
    return loss, scores


model = Model()
write("mask_rcnn.golden", model, f, rate=0.01)
# The first image's proposals and detections, by torchvision's own code in evaluation, from the first parameters.
with torch.no_grad():
    for name, value in model.state_dict().items():
        value.copy_(initial(name, value.shape))
    model.eval()
    first = OrderedDict((name, value[:1]) for name, value in features.items())
    found, _ = rpn(ImageList(torch.zeros(1, 3, *SIZE), [SIZE]), first)
    detected, _ = heads(first, found, [SIZE])
    lines = [" ".join("%.17g" % v for v in box) for box in found[0]] + [
        " ".join("%.17g" % v for v in (*box, label, score))
        for box, label, score in zip(detected[0]["boxes"], detected[0]["labels"], detected[0]["scores"])]
    (Path(__file__).parent / "mask_rcnn_detections.golden").write_text("\n".join(lines) + "\n")
