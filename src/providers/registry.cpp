#include <algorithm>
#include <vector>

#include "base/device_target.hpp"
#include "base/fail.hpp"
#include "providers/measured.hpp"
#include "providers/provider.hpp"
#include "runtime/cuda/steps.hpp"

namespace weft::providers {

namespace {

class Registry final : public Providers {
 public:
  bool takes(const Node& node, Device device) const override {
    return std::any_of(std::begin(rows), std::end(rows), [&](const auto row) { return takes(row(), node, device); });
  }
  bool attends(Device device) const override {
    return std::any_of(std::begin(rows), std::end(rows), [&](const auto row) { return row().attends(device); });
  }
  void add_questions(const Node& node, Device device, Questions& to) const override {
    for (const auto row : rows)
      if (may_do_steps(row())) row().add_questions(node, device, to);
  }
  bool reads(const Node& node, Device device, const Shape& shape, Dim offset,
             std::span<const Dim> strides) const override {
    return std::any_of(std::begin(rows), std::end(rows), [&](const auto row) {
      return takes(row(), node, device) && row().reads(shape, strides) &&
             (row().alignment() == 1 || (offset % Dim(row().alignment())).same(Dim(0)));
    });
  }
  bool reads_chosen(const Node& node, Device device) const override {
    return std::any_of(std::begin(rows), std::end(rows),
                       [&](const auto row) { return row().reads_chosen() && takes(row(), node, device); });
  }
  bool writes_in_any_order(const Node& node, Device device) const override {
    return std::any_of(std::begin(rows), std::end(rows),
                       [&](const auto row) { return row().writes_in_any_order() && takes(row(), node, device); });
  }
  bool gains_with_channels_last(const Node& node, Device device) const override {
    return std::any_of(std::begin(rows), std::end(rows), [&](const auto row) {
      return takes(row(), node, device) && row().gains_with_channels_last(node, device);
    });
  }
  std::int64_t size_multiple(const Node& node, Device device) const override {
    std::int64_t multiple = 1;
    for (const auto row : rows)
      if (row().size_multiple(node) > multiple && takes(row(), node, device)) multiple = row().size_multiple(node);
    return multiple;
  }
  Offer best(const Candidate& candidate) const override {
    std::vector<Offer> offers;
    for (const auto row : rows)
      if (takes(row(), candidate.node, candidate.device))
        if (std::optional<Offer> offer = row().offer(candidate)) offers.push_back(*std::move(offer));
    WEFT_CHECK(!offers.empty(), "nobody offers ", info(candidate.node.op).name, " ", to_string(candidate.node.type));
    if (candidate.choices.measures && offers.size() > 1)
      if (const auto place = fastest(candidate, offers)) return std::move(offers[*place]);
    return std::move(
        *std::ranges::min_element(offers, {}, [](const Offer& offer) { return dims::at_hints(offer.rank); }));
  }
  std::shared_ptr<Payload> generated(std::vector<loop::Kernel> kernels) const override {
    return generated_kernels(std::move(kernels));
  }
  std::shared_ptr<Payload> joined(const Step& first, const Step& second) const override {
    for (const auto row : rows)
      if (may_do_steps(row()))
        if (std::shared_ptr<Payload> both = row().joined(first, second)) return both;
    return nullptr;
  }
  std::optional<Followed> followed(const Step& product, const Step& follower, bool keeps,
                                   Device device) const override {
    for (const auto row : rows)
      if (may_do_steps(row()))
        if (std::optional<Followed> both = row().followed(product, follower, keeps, device)) return both;
    return {};
  }
  std::size_t most_sets(const loop::Kernel& kernel, Device device) const override {
    if (device.type != Device::Type::cuda) return 1;
    return runtime::cuda::most_sets(kernel.buffers.size(), kernel.parameters.size());
  }

 private:
  // Of what this thread compiles: a package for a device has only steps that have a form on disk.
  static bool may_do_steps(const Provider& provider) { return provider.is_for_packages() || !current_device_target(); }
  static bool takes(const Provider& provider, const Node& node, Device device) {
    return may_do_steps(provider) && provider.takes(node, device);
  }

  static constexpr const Provider& (*rows[])() = {
#define WEFT_PROVIDER(name) name,
#include "providers/providers.def"
#undef WEFT_PROVIDER
  };
};

}  // namespace

bool is_row_major(const Shape& shape, std::span<const Dim> strides) {
  Dim step = 1;
  for (std::size_t i = strides.size(); i-- > 0;) {
    const Dim size = shape[static_cast<int>(i)];
    if (!strides[i].same(step) && !size.same(Dim(1))) return false;
    step = step * size;
  }
  return true;
}

const Providers& all() {
  static constexpr Registry registry;
  return registry;
}

}  // namespace weft::providers
