#include "providers/sources.hpp"

#include "codegen/cpp.hpp"
#include "codegen/cuda.hpp"

namespace weft::providers {

runtime::EntryPoint Sources::add(std::span<const loop::Kernel> kernels) {
  const loop::Kernel& given = kernels[0];
  const std::size_t sets = kernels.size();
  auto [found, fresh] = names_.emplace(loop::shared_text(given) + std::to_string(sets), "");
  if (fresh) {
    found->second =
        "weft_k" + std::to_string(kernels_.size()) + "_" + given.name + (sets > 1 ? "_of_" + std::to_string(sets) : "");
    kernels_.push_back(given);
    kernels_.back().name = found->second;
  }
  const std::string& name = found->second;
  if (device_.type == Device::Type::cpu) return {name, loop::over_symbols(loop::unit_count(given), given)};
  if (fresh) {
    codegen::CudaKernel made = codegen::generate_cuda(kernels_.back(), sets);
    grids_[name] = {made.blocks, made.threads, made.shared, made.strides};
    texts_[name] = std::move(made.text);
  }
  const Grid& grid = grids_.at(name);
  runtime::EntryPoint entry{name, loop::over_symbols(grid.blocks, given), grid.threads, grid.shared, grid.strides};
  if (sets > 1)
    for (const loop::Kernel& each : kernels) entry.sets.push_back(loop::over_symbols(grid.blocks, each));
  return entry;
}

runtime::EntryPoint Sources::add(const codegen::CudaFunction& function) {
  texts_[function.name] = function.text;
  return {function.name, 1, function.threads, function.shared};
}

void Sources::generate_texts() {
  if (device_.type == Device::Type::cpu)
    for (const loop::Kernel& kernel : kernels_) texts_[kernel.name] = codegen::generate_cpp(kernel);
}

}  // namespace weft::providers
