// Boxes: areas, overlaps, and those that stay where many overlap.
#include "base/fail.hpp"
#include "record/evaluate.hpp"
#include "record/host_values.hpp"
#include "record/record.hpp"
#include "weft/loops.hpp"
#include "weft/nn/vision.hpp"

namespace weft::nn {
namespace {

// Boxes in a dtype that their areas fit into.
Tensor boxes_of(const char* name, const At& given, int rank, Loc loc) {
  const Tensor boxes = resolve(given, name);
  const Type type = type_of(boxes);
  const int own = type.shape.rank();
  if (own == 0 || (rank != 0 && own != rank) || !(type.shape[own - 1] == Dim(4)) || type.dtype == DType::boolean)
    fail(name, loc, "takes boxes ", rank == 2 ? "[N,4]" : "[...,4]", ", they are ", to_string(type));
  if (is_floating(type.dtype)) return cast(boxes, computed_in(type.dtype));
  return cast(boxes, promote({type.dtype, false, false}, {DType::i32, false, false}));
}

Tensor area(const Tensor& boxes) {
  const auto edge = [&](int i) { return select(boxes, -1, i); };
  return (edge(2) - edge(0)) * (edge(3) - edge(1));
}

Tensor overlaps(const Tensor& left, const Tensor& right) {
  const auto shared = [&](int i) {
    const auto of = [&](const Tensor& boxes, int edge, int axis) { return unsqueeze(select(boxes, 1, edge), axis); };
    const Tensor extent = minimum(of(left, i + 2, 1), of(right, i + 2, 0)) - maximum(of(left, i, 1), of(right, i, 0));
    return where(extent < 0, 0, extent);
  };
  const Tensor inter = shared(0) * shared(1);
  return inter / (unsqueeze(area(left), 1) + unsqueeze(area(right), 0) - inter);
}

struct KeptBoxes {
  Tensor order, kept;  // [N]: the boxes from the greatest score on; of each one in this order whether it stays
};

KeptBoxes choose(const char* name, const At& given, const At& given_scores, const At* groups, double threshold,
                 Loc loc) {
  const Tensor boxes = stop_gradient(boxes_of(name, given, 2, loc)),
               scores = stop_gradient(resolve(given_scores, name));
  const Dim count = type_of(boxes).shape[0];
  const Device device = type_of(boxes).device;
  const Type of_scores = type_of(scores);
  if (of_scores.shape.rank() != 1 || !(of_scores.shape[0] == count))
    fail(name, loc, "takes a score for each box: ", to_string(type_of(boxes)), " with scores ", to_string(of_scores));
  const Tensor order = argsort(scores, 0, true);
  const auto sorted = [&](const Tensor& rows) { return record(Op::gather, {rows, order}, {}, {}, loc); };
  const Tensor first = sorted(boxes);
  const Shape pairs = Shape::of(count, count);
  Tensor over =
      (overlaps(first, first) > threshold) & (positions(0, pairs, device, loc) < positions(1, pairs, device, loc));
  if (groups) {
    const Tensor group = resolve(*groups, name);
    const Type type = type_of(group);
    if (!is_integer(type.dtype) || type.shape.rank() != 1 || !(type.shape[0] == count))
      fail(name, loc, "takes a group, an integer, for each box: ", to_string(type_of(boxes)), " with groups ",
           to_string(type));
    const Tensor own = sorted(group);
    over = over & (unsqueeze(own, 1) == unsqueeze(own, 0));
  }
  // Row i says which later boxes go if box i stays.
  const Tensor place = positions(0, Shape::of(count), device, loc);
  const Tensor none = expand(full({}, 0, {DType::boolean, device}), {count});
  const Tensor gone =
      scan([&place](const Tensor& gone,
                    const std::vector<Tensor>& row) { return gone | (row[0] & ~any(gone & (place == row[1]))); },
           none, std::vector<Tensor>{over, place}, {}, loc);
  return {order, ~gone};
}

Tensor mask_of(const KeptBoxes& chosen, Loc loc) {
  return record(Op::gather, {chosen.kept, argsort(chosen.order)}, {}, {}, loc);
}

Tensor indices_of(const char* name, const KeptBoxes& chosen, Loc loc) {
  const Tensor both = known_value(name, stack({chosen.order, cast(chosen.kept, DType::i64)}), loc);
  const auto read = both.data<std::int64_t>(loc);
  const std::size_t count = read.size() / 2;
  std::vector<std::int64_t> indices;
  for (std::size_t i = 0; i < count; ++i)
    if (read[count + i]) indices.push_back(read[i]);
  return counted_data(indices, Shape::of(static_cast<std::int64_t>(indices.size())), type_of(both).device, loc);
}

}  // namespace

Tensor box_area(At boxes) {
  LooseComposite call("box_area", boxes.loc);
  return area(boxes_of("box_area", boxes, 0, call.loc()));
}

Tensor box_iou(At boxes1, At boxes2) {
  LooseComposite call("box_iou", boxes1.loc);
  return overlaps(boxes_of("box_iou", boxes1, 2, call.loc()), boxes_of("box_iou", boxes2, 2, call.loc()));
}

Tensor nms_mask(At boxes, At scores, double iou_threshold) {
  LooseComposite call("nms_mask", boxes.loc);
  return mask_of(choose("nms_mask", boxes, scores, nullptr, iou_threshold, call.loc()), call.loc());
}

Tensor nms(At boxes, At scores, double iou_threshold) {
  LooseComposite call("nms", boxes.loc);
  return indices_of("nms", choose("nms", boxes, scores, nullptr, iou_threshold, call.loc()), call.loc());
}

Tensor batched_nms_mask(At boxes, At scores, At idxs, double iou_threshold) {
  LooseComposite call("batched_nms_mask", boxes.loc);
  return mask_of(choose("batched_nms_mask", boxes, scores, &idxs, iou_threshold, call.loc()), call.loc());
}

Tensor batched_nms(At boxes, At scores, At idxs, double iou_threshold) {
  LooseComposite call("batched_nms", boxes.loc);
  return indices_of("batched_nms", choose("batched_nms", boxes, scores, &idxs, iou_threshold, call.loc()), call.loc());
}

}  // namespace weft::nn
