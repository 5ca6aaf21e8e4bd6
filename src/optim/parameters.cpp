// The parameters of a model, as an optimizer walks over them, and the groups that the user puts them into.
#include "base/fail.hpp"
#include "base/nearest_names.hpp"
#include "optim/steps.hpp"
#include "record/record.hpp"
#include "record/shards.hpp"
#include "weft/grad.hpp"
#include "weft/tree.hpp"

namespace weft::optim {
namespace detail {

using weft::detail::Leaf;
using weft::detail::LeafKind;

void Parameters::select() {
  LeafKind kind = weft::detail::trainable_kind(leaves_);
  for (std::size_t i = 0; i < leaves_.leaves.size(); ++i)
    if (leaves_.leaves[i].kind == kind) positions_.push_back(i);
}

void Parameters::match_gradients(Loc loc) {
  auto is_other = [loc] { fail("update", loc, "the gradients are of another model: other parameters or lengths"); };
  if (gradient_leaves_.leaves.size() != leaves_.leaves.size()) is_other();
  for (std::size_t i = 0; i < size(); ++i) {
    const Leaf &leaf = leaves_.leaves[positions_[i]], &other = gradient_leaves_.leaves[positions_[i]];
    if (other.kind != leaf.kind) is_other();
    if (!trains(i)) continue;
    const Type &value = type_of(parameter(i)), &slope = type_of(gradient(i));
    bool fits = value.dtype == slope.dtype && value.shape.rank() == slope.shape.rank();
    for (int axis = 0; fits && axis < value.shape.rank(); ++axis) fits = value.shape[axis] == slope.shape[axis];
    if (!fits) fail("update", loc, name_of(*this, i), " is ", to_string(value), ", its gradient ", to_string(slope));
  }
}

bool Parameters::trains(std::size_t i) const {
  return is_kept(i) && !is_frozen(i) && parameter(i).defined() && gradient(i).defined();
}

std::vector<Buffer> Parameters::zeros(Loc loc) const {
  std::vector<Buffer> result(size());
  for (std::size_t i = 0; i < size(); ++i)
    if (is_kept(i) && parameter(i).defined()) {
      result[i] = zeros_like(parameter(i), loc);
      result[i].shard = leaves_.leaves[positions_[i]].shard();
    }
  return result;
}

void Parameters::require_whole(const char* name, Loc loc) const {
  for (std::size_t i = 0; i < size(); ++i)
    if (const std::uint32_t shard = leaves_.leaves[positions_[i]].shard())
      fail(name, loc, name_of(*this, i), " is ", to_string(interned_shard(shard)),
           ", and this optimizer computes with whole parameters: take one that goes element by element, as AdamW");
}

std::string Parameters::path(std::size_t i) const {
  struct Context {
    std::size_t left;
    std::string found;
  } context{positions_[i], {}};
  visit_paths(*description_, leaves_.leaves.begin(), &context, [](void* at, const Leaf&, const char* path) {
    Context& context = *static_cast<Context*>(at);
    if (context.left-- == 0) context.found = path;
  });
  return context.found;
}

std::vector<std::uint8_t> Parameters::named(const char* pattern) const {
  struct Context {
    const char* pattern;
    std::vector<std::uint8_t> found;
  } context{pattern, {}};
  visit_paths(*description_, leaves_.leaves.begin(), &context, [](void* at, const Leaf&, const char* path) {
    auto& [pattern, found] = *static_cast<Context*>(at);
    found.push_back(tree::matches(pattern, path));
  });
  std::vector<std::uint8_t> result;
  for (const std::size_t position : positions_) result.push_back(context.found[position]);
  return result;
}

bool is_still_zero(const Tensor& number) {
  const Node& node = *number.node();
  return node.op == Op::input || (node.op == Op::data && node.trace == 0 && number.item<double>() == 0);
}

ParameterGroups groups_of(const char* optimizer, const Parameters& parameters, Groups groups, Loc loc) {
  const Operation call(optimizer, loc);
  return ParameterGroups(parameters, groups, loc);
}

}  // namespace detail

// ---- groups ---------------------------------------------------------------------------------------------------------

namespace {
[[noreturn]] void refuse_pattern(const detail::Parameters& parameters, const char* pattern, Loc loc) {
  std::vector<std::string> paths;
  for (std::size_t i = 0; i < parameters.size(); ++i) paths.push_back(parameters.path(i));
  if (paths.empty()) fail("optimizer", loc, "no parameter is named ", pattern, ": the model has no parameters");
  fail("optimizer", loc, "no parameter is named ", pattern, ": they are ", nearest_names(pattern, std::move(paths)));
}
}  // namespace

ParameterGroups::ParameterGroups(const detail::Parameters& parameters, Groups groups, Loc loc) {
  if (groups.size() == 0) return;
  group_of_.assign(parameters.size(), 0);
  for (const Group& group : groups) {
    const GroupOptions& own = group.options;
    for (const auto& [name, value] : {NamedNumber{"lr", own.lr}, {"weight_decay", own.weight_decay}})
      if (value != inherited)
        detail::check_options("optimizer", {{concat_text(name, " of the group ", group.pattern).c_str(), value}}, {},
                              loc);
    list_.push_back({own.lr, own.weight_decay, own.lr != inherited, own.weight_decay != inherited});
    bool found = false;
    const std::vector<std::uint8_t> named = parameters.named(group.pattern);
    for (std::size_t i = 0; i < named.size(); ++i) {
      found = found || named[i];
      if (named[i] && group_of_[i] == 0) group_of_[i] = static_cast<std::int32_t>(list_.size());
    }
    if (!found) refuse_pattern(parameters, group.pattern, loc);
  }
}
std::size_t ParameterGroups::group_of(std::size_t i) const {
  return group_of_.empty() ? 0 : static_cast<std::size_t>(group_of_[i]);
}
void ParameterGroups::require_same_model(const detail::Parameters& parameters, Loc loc) const {
  if (!group_of_.empty()) detail::require_same_count(parameters, group_of_.size(), loc);
}
const Scalar& ParameterGroups::lr(std::size_t i, const Scalar& all) const {
  const std::size_t group = group_of(i);
  return group && list_[group - 1].own_lr ? list_[group - 1].lr : all;
}
const Scalar& ParameterGroups::weight_decay(std::size_t i, const Scalar& all) const {
  const std::size_t group = group_of(i);
  return group && list_[group - 1].own_weight_decay ? list_[group - 1].weight_decay : all;
}

}  // namespace weft::optim
