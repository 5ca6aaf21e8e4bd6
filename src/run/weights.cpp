// Weights of a package: what there are, and others in their place.
#include <algorithm>

#include "base/strided_copy.hpp"
#include "run/tensor.hpp"

namespace weft::run {

namespace {

std::size_t number_of(const OpenPackage& package, const char* name) {
  const auto& weights = package.file.weights;
  const auto found = std::ranges::find(weights, std::string_view(name), &runtime::PackageWeight::name);
  if (found == weights.end())
    refuse(WEFT_MISMATCH, "[weft_package_update_constants] ", package.name, " holds no weight \"", name, "\"");
  return static_cast<std::size_t>(found - weights.begin());
}

// A copy in row-major order of what the caller gives for this weight.
std::shared_ptr<Storage> copy_for(const OpenPackage& package, const runtime::PackageWeight& weight,
                                  const weft_tensor* given) {
  const DType dtype = check_tensor(given, concat_text("[weft_package_update_constants] ", weight.name));
  const std::span<const std::int64_t> sizes(given->shape, static_cast<std::size_t>(given->ndim));
  if (dtype != weight.dtype || !std::ranges::equal(sizes, weight.sizes))
    refuse(WEFT_MISMATCH, "[weft_package_update_constants] ", weight.name, " is ",
           runtime::tensor_text(dtype, {sizes.begin(), sizes.end()}), ", ", package.name, " holds ",
           runtime::tensor_text(weight.dtype, {weight.sizes.begin(), weight.sizes.end()}));
  const std::int64_t bytes = bytes_of(dtype, sizes);
  std::shared_ptr<Storage> copy(allocate_bytes(static_cast<std::size_t>(bytes)).release(), Release());
  std::int64_t room[max_rank];
  const std::span<const std::int64_t> strides =
      given->strides ? std::span(given->strides, sizes.size()) : row_major_strides(sizes, room);
  if (bytes > 0)
    copy_to_row_major(static_cast<std::uint8_t*>(copy->data),
                      static_cast<const std::uint8_t*>(given->data) + given->byte_offset, sizes, strides,
                      storage_bytes(dtype, 1));
  return copy;
}

}  // namespace

}  // namespace weft::run

using namespace weft::run;

extern "C" {

weft_status weft_package_weights(const weft_package* package, size_t* count, const weft_tensor_info** infos) {
  return guarded([&] {
    const auto state = Handles<weft_package>::state_of("weft_package_weights", package);
    require("weft_package_weights", "infos", infos);
    *require("weft_package_weights", "count", count) = state->weight_infos.infos.size();
    *infos = state->weight_infos.infos.data();
  });
}

weft_status weft_package_update_constants(weft_package* package, const char* const* names,
                                          const weft_tensor* const* values, size_t count) {
  return guarded([&] {
    constexpr const char* function = "weft_package_update_constants";
    const auto state = Handles<weft_package>::state_of(function, package);
    if (count > 0) require(function, "names", names), require(function, "values", values);
    std::vector<std::pair<std::size_t, std::shared_ptr<weft::Storage>>> given;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t number = number_of(*state, require(function, "a name", names[i]));
      given.emplace_back(number, copy_for(*state, state->file.weights[number], values[i]));
    }
    const std::lock_guard lock(state->updating);
    auto next = std::make_shared<Weights>(*state->weights.load());
    for (auto& [number, storage] : given) {
      next->at[number] = storage->data;
      next->replaced[number] = std::move(storage);
    }
    state->weights.exchange(std::move(next));
  });
}

}  // extern "C"
