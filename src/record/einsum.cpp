// Products over named axes: einsum and what it makes short. In: operands with a label for each axis. Out: permutations
// and one product of matrices for each pair of operands, from the left; reshapes where several labels are one axis of
// the product.
#include <algorithm>
#include <cctype>
#include <cstring>
#include <string>
#include <vector>

#include "base/fail.hpp"
#include "record/record.hpp"

namespace weft {
namespace {

// a is 'a'; the axes of an ellipsis are numbers from `ellipsis` on, the last axis the first number.
using Label = char;
using Labels = std::string;
constexpr Label ellipsis = 0;

bool has(const Labels& labels, Label label) { return labels.find(label) != labels.npos; }

struct LabelledOperand {
  Tensor value;
  Labels labels;
};

class Contraction {
 public:
  Contraction(const char* name, Loc loc) : name_(name), loc_(loc) {}

  Tensor run(std::vector<LabelledOperand> operands, const Labels& output) {
    for (LabelledOperand& operand : operands) take_diagonals(operand);
    drop_repeated(operands);
    LabelledOperand result = std::move(operands.front());
    for (std::size_t i = 1; i < operands.size(); ++i) {
      Labels later = output;
      for (std::size_t j = i + 1; j < operands.size(); ++j) later += operands[j].labels;
      result = multiply(std::move(result), std::move(operands[i]), later);
    }
    sum_out(result, output);
    return permute_to(result, output);
  }

 private:
  Dim size(const LabelledOperand& operand, Label label) const {
    return type_of(operand.value).shape[static_cast<int>(operand.labels.find(label))];
  }

  // A label that an operand has twice is its diagonal there.
  void take_diagonals(LabelledOperand& operand) const {
    for (std::size_t j = 1; j < operand.labels.size(); ++j) {
      const std::size_t i = operand.labels.find(operand.labels[j]);
      if (i == j) continue;
      const Shape& shape = type_of(operand.value).shape;
      if (!(shape[static_cast<int>(i)] == shape[static_cast<int>(j)]))
        fail(name_, loc_, "axes ", i, " and ", j, " of ", to_string(type_of(operand.value)),
             " have one label and different sizes");
      operand.value = diagonal(operand.value, 0, static_cast<int>(i), static_cast<int>(j));
      operand.labels = operand.labels.substr(0, i) + operand.labels.substr(i + 1, j - i - 1) +
                       operand.labels.substr(j + 1) + operand.labels[j];
      j = 0;
    }
  }

  // An axis of size 1 broadcasts to any size.
  void drop_repeated(std::vector<LabelledOperand>& operands) {
    for (std::size_t i = 0; i < operands.size(); ++i)
      for (const Label label : Labels(operands[i].labels))
        for (LabelledOperand& other : operands) {
          if (&other == &operands[i] || !has(other.labels, label) || !has(operands[i].labels, label)) continue;
          const Dim a = size(operands[i], label), b = size(other, label);
          if (a == b) continue;
          if (!(b == Dim(1))) {
            if (a == Dim(1)) continue;  // it goes when it is the other one
            fail(name_, loc_, "sizes of one label differ: ", to_string(type_of(operands[i].value)), " x ",
                 to_string(type_of(other.value)));
          }
          stretched_ += label;
          other.value = squeeze(other.value, static_cast<int>(other.labels.find(label)));
          std::erase(other.labels, label);
        }
  }

  // Over all axes that nobody wants any more. A sum of integers is i64, a sum of products has their dtype, also where
  // the other factor is one number for all of them: the equation decides the dtype, and no size does.
  void sum_out(LabelledOperand& operand, const Labels& wanted) const {
    std::vector<int> axes;
    Labels kept;
    bool is_sum = false;
    for (std::size_t i = 0; i < operand.labels.size(); ++i) {
      if (has(wanted, operand.labels[i])) {
        kept += operand.labels[i];
        continue;
      }
      axes.push_back(static_cast<int>(i));
      is_sum |= !has(stretched_, operand.labels[i]);
    }
    if (axes.empty()) return;
    const DType dtype = type_of(operand.value).dtype;
    if (!is_sum && dtype == DType::boolean)  // as the product would be
      fail(name_, loc_, "is not defined on bool, cast first: ", to_string(type_of(operand.value)));
    operand.value = sum(operand.value, axes);
    if (!is_sum) operand.value = cast(operand.value, dtype);
    operand.labels = kept;
  }

  Tensor permute_to(const LabelledOperand& operand, const Labels& order) const {
    if (operand.labels == order) return operand.value;
    std::vector<int> axes;
    for (const Label label : order) axes.push_back(static_cast<int>(operand.labels.find(label)));
    return permute(operand.value, axes);
  }

  // With one axis for each group of labels, which it has. No reshape where each group is one label.
  Tensor grouped(const LabelledOperand& operand, const std::vector<Labels>& groups) const {
    Labels order;
    Shape shape;
    for (const Labels& group : groups) {
      order += group;
      Dim count = 1;
      for (const Label label : group) count = count * size(operand, label);
      shape.push_back(count);
    }
    const Tensor permuted = permute_to(operand, order);
    return are_single(groups) ? permuted : reshape(permuted, shape);
  }
  static bool are_single(const std::vector<Labels>& groups) {
    return std::ranges::all_of(groups, [](const Labels& group) { return group.size() == 1; });
  }
  // With an axis for each label, of size 1 where it has none.
  Tensor spread(const LabelledOperand& operand, const Labels& all) const {
    Labels order;
    Shape shape;
    for (const Label label : all) {
      const bool own = has(operand.labels, label);
      if (own) order += label;
      shape.push_back(own ? size(operand, label) : Dim(1));
    }
    return reshape(permute_to(operand, order), shape);
  }

  LabelledOperand multiply(LabelledOperand a, LabelledOperand b, const Labels& later) const {
    sum_out(a, b.labels + later);
    sum_out(b, a.labels + later);
    Labels both, contracted, rows, columns;
    for (const Label label : a.labels)
      if (!has(b.labels, label))
        rows += label;
      else if (has(later, label))
        both += label;
      else
        contracted += label;
    for (const Label label : b.labels)
      if (!has(a.labels, label)) columns += label;
    // In the order of the result, so that nothing is transposed after the product.
    if (!rows.empty() && !columns.empty() && later.find(columns[0]) < later.find(rows[0]))
      std::swap(a, b), std::swap(rows, columns);
    const Labels result = both + rows + columns;
    if (result.size() > max_rank) fail(name_, loc_, "more than ", max_rank, " axes");
    if (contracted.empty()) return {spread(a, result) * spread(b, result), result};
    // Labels of both are an axis each: merged, they hide a product of batches, and an operand in which they do not lie
    // in this order would be copied. One axis where the product would have more axes than its operands and its result.
    const std::size_t most = std::max({result.size(), a.labels.size(), b.labels.size()});
    std::vector<Labels> batch;
    if (both.size() + 2 > most && !both.empty())
      batch = {both};
    else
      for (const Label label : both) batch.emplace_back(1, label);
    const auto with = [&](const Labels& row, const Labels& column) {
      std::vector<Labels> groups = batch;
      groups.insert(groups.end(), {row, column});
      return groups;
    };
    Shape shape;
    for (const Label label : result) shape.push_back(size(has(a.labels, label) ? a : b, label));
    const Tensor product = matmul(grouped(a, with(rows, contracted)), grouped(b, with(contracted, columns)));
    return {are_single(with(rows, columns)) ? product : reshape(product, shape), result};
  }

  const char* name_;
  Loc loc_;
  Labels stretched_;  // which an operand has had with size 1
};

// The labels of an operand, or of the result, as it is written. `axes`: the number of axes of its ellipsis, where it
// has one.
Labels read_labels(const std::string& text, int axes, Loc loc) {
  Labels labels;
  bool found = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (std::isalpha(static_cast<unsigned char>(text[i]))) {
      labels += text[i];
    } else if (text.compare(i, 3, "...") == 0 && !found) {
      found = true;
      i += 2;
      for (int axis = axes; axis-- > 0;) labels += static_cast<Label>(ellipsis + axis);
    } else {
      fail("einsum", loc, "the equation has '", text[i], "' where a letter, or one ellipsis, is expected");
    }
  }
  return labels;
}

std::vector<std::string> split_text(const std::string& text, char at) {
  std::vector<std::string> parts(1);
  for (const char c : text)
    if (c == at)
      parts.emplace_back();
    else
      parts.back() += c;
  return parts;
}

}  // namespace

Tensor einsum(const char* equation, std::span<const Tensor> operands, Loc loc) {
  LooseComposite call("einsum", loc);
  std::string text = equation ? equation : "";
  std::erase_if(text, [](char c) { return c == ' '; });
  const std::size_t arrow = text.find("->");
  const std::vector<std::string> inputs = split_text(text.substr(0, arrow), ',');
  if (operands.empty() || inputs.size() != operands.size())
    fail("einsum", call.loc(), "the equation '", equation, "' has ",
         counted(static_cast<int>(inputs.size()), "operand", "operands"), ", and there are ", operands.size());
  std::vector<LabelledOperand> labelled;
  int widest = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Tensor value = resolve(At(operands[i], loc), "einsum");
    const int rank = type_of(value).shape.rank(),
              named = static_cast<int>(read_labels(inputs[i], 0, call.loc()).size());
    const int axes = inputs[i].find("...") == std::string::npos ? 0 : rank - named;
    if (named + axes != rank || axes < 0)
      fail("einsum", call.loc(), "'", inputs[i], "' names ", counted(named, "axis", "axes"), " of ",
           to_string(type_of(value)));
    widest = std::max(widest, axes);
    labelled.push_back({value, read_labels(inputs[i], axes, call.loc())});
  }
  Labels output;
  if (arrow != text.npos) {
    output = read_labels(text.substr(arrow + 2), widest, call.loc());
  } else {
    for (int axis = widest; axis-- > 0;) output += static_cast<Label>(ellipsis + axis);
    for (int label = 'A'; label <= 'z'; ++label) {
      std::ptrdiff_t count = 0;
      for (const LabelledOperand& operand : labelled)
        count += std::ranges::count(operand.labels, static_cast<char>(label));
      if (count == 1) output += static_cast<char>(label);
    }
  }
  for (std::size_t i = 0; i < output.size(); ++i) {
    if (output.find(output[i]) != i) fail("einsum", call.loc(), "the result has the label '", output[i], "' twice");
    if (std::ranges::none_of(labelled, [&](const LabelledOperand& operand) { return has(operand.labels, output[i]); }))
      fail("einsum", call.loc(), "no operand has the result's label '", output[i], "'");
  }
  return Contraction("einsum", call.loc()).run(std::move(labelled), output);
}
Tensor einsum(const char* equation, std::initializer_list<Tensor> operands, Loc loc) {
  return einsum(equation, std::span<const Tensor>(operands.begin(), operands.size()), loc);
}

Tensor tensordot(At a, At b, Axes axes_a, Axes axes_b) {
  LooseComposite call("tensordot", a.loc);
  LabelledOperand left{resolve(a, "tensordot"), {}}, right{resolve(b, "tensordot"), {}};
  const int rank_a = type_of(left.value).shape.rank(), rank_b = type_of(right.value).shape.rank();
  if (axes_a.count() != axes_b.count())
    fail("tensordot", call.loc(), counted(axes_a.count(), "axis", "axes"), " of one operand and ", axes_b.count(),
         " of the other");
  for (int i = 0; i < rank_a; ++i) left.labels += static_cast<Label>('a' + i);
  for (int i = 0; i < rank_b; ++i) right.labels += static_cast<Label>('A' + i);
  Labels output = left.labels + right.labels;
  for (int i = 0; i < axes_a.count(); ++i) {
    const auto axis_a = static_cast<std::size_t>(normalize_axis("tensordot", axes_a[i], rank_a, call.loc())),
               axis_b = static_cast<std::size_t>(normalize_axis("tensordot", axes_b[i], rank_b, call.loc()));
    if (!has(output, left.labels[axis_a]) || !has(output, right.labels[axis_b]))
      fail("tensordot", call.loc(), "an axis is named twice");
    std::erase(output, left.labels[axis_a]);
    std::erase(output, right.labels[axis_b]);
    right.labels[axis_b] = left.labels[axis_a];
  }
  return Contraction("tensordot", call.loc()).run({left, right}, output);
}
Tensor tensordot(At a, At b, int axes) {
  LooseComposite call("tensordot", a.loc);
  const int rank = type_of(resolve(a, "tensordot")).shape.rank();
  if (axes < 0 || axes > rank || axes > type_of(resolve(b, "tensordot")).shape.rank())
    fail("tensordot", call.loc(), "the number of axes is ", axes, ": ", to_string(type_of(resolve(a, "tensordot"))),
         " x ", to_string(type_of(resolve(b, "tensordot"))));
  std::vector<int> last, first;
  for (int i = 0; i < axes; ++i) last.push_back(rank - axes + i), first.push_back(i);
  return tensordot(a, b, last, first);
}

Tensor outer(At a, At b) {
  LooseComposite call("outer", a.loc);
  const Tensor x = resolve(a, "outer"), y = resolve(b, "outer");
  if (type_of(x).shape.rank() != 1 || type_of(y).shape.rank() != 1)
    fail("outer", call.loc(), "needs two vectors: ", to_string(type_of(x)), " x ", to_string(type_of(y)));
  return unsqueeze(x, 1) * unsqueeze(y, 0);
}
Tensor kron(At a, At b) {
  LooseComposite call("kron", a.loc);
  Tensor x = resolve(a, "kron"), y = resolve(b, "kron");
  const int rank = std::max(type_of(x).shape.rank(), type_of(y).shape.rank());
  if (2 * rank > max_rank) fail("kron", call.loc(), "takes at most ", max_rank / 2, " axes, there are ", rank);
  while (type_of(x).shape.rank() < rank) x = unsqueeze(x, 0);
  while (type_of(y).shape.rank() < rank) y = unsqueeze(y, 0);
  Shape outer, inner, joined;
  for (int i = 0; i < rank; ++i) {
    const Dim from = type_of(x).shape[i], to = type_of(y).shape[i];
    outer.push_back(from), outer.push_back(1);
    inner.push_back(1), inner.push_back(to);
    joined.push_back(from * to);
  }
  return reshape(reshape(x, outer) * reshape(y, inner), joined);
}
Tensor dot(At a, At b) {
  LooseComposite call("dot", a.loc);
  const Tensor x = resolve(a, "dot"), y = resolve(b, "dot");
  if (type_of(x).shape.rank() != 1 || !(type_of(x).shape == type_of(y).shape))
    fail("dot", call.loc(), "needs two vectors of one length: ", to_string(type_of(x)), " x ", to_string(type_of(y)));
  return matmul(x, y);
}

}  // namespace weft
