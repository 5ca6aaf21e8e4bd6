#include "tests/codegen/cuda_support.hpp"

#include <doctest/doctest.h>

#include <map>

#include "base/device_target.hpp"
#include "codegen/cuda.hpp"
#include "providers/provider.hpp"
#include "runtime/cuda/code.hpp"
#include "runtime/plan.hpp"
#include "tests/cuda/device.hpp"

namespace weft::test {

namespace {

std::map<std::string, codegen::CudaKernel> generate(const std::vector<Trial>& trials) {
  std::map<std::string, codegen::CudaKernel> kernels;
  for (const Trial& trial : trials)
    if (!kernels.contains(trial.kernel.name)) kernels[trial.kernel.name] = codegen::generate_cuda(trial.kernel);
  return kernels;
}

std::vector<std::string> programs_of(const std::map<std::string, codegen::CudaKernel>& kernels) {
  std::vector<std::string> texts;
  for (const auto& [name, kernel] : kernels) texts.push_back(kernel.text);
  return codegen::cuda_units(texts);
}

// A plan of one launch, whose buffers are all arguments and whose sizes are numbers.
runtime::Plan plan_of(const Trial& trial, const codegen::CudaKernel& kernel,
                      const std::shared_ptr<runtime::cuda::Code>& code) {
  runtime::Plan plan;
  plan.device = test_device();
  plan.functions = code;
  runtime::Launch launch;
  loop::Kernel sized = trial.kernel;
  sized.parameters.assign(trial.sizes.begin(), trial.sizes.end());
  launch.entry = {trial.kernel.name, Dim(dims::evaluate(kernel.blocks, trial.sizes)), kernel.threads, kernel.shared};
  launch.step = providers::generated_kernels({std::move(sized)});
  for (std::size_t b = 0; b < trial.buffers.size(); ++b) {
    plan.buffers.push_back(
        {runtime::PlanBuffer::Kind::argument, static_cast<int>(b), trial.kernel.buffers[b].dtype, Dim(0), Dim(0)});
    launch.buffers.push_back(static_cast<int>(b));
  }
  plan.argument_count = static_cast<int>(trial.buffers.size());
  plan.launches.push_back(std::move(launch));
  runtime::prepare(plan);
  return plan;
}

}  // namespace

std::vector<std::string> cuda_programs(const std::vector<Trial>& trials) { return programs_of(generate(trials)); }

void check_functions_compile(std::span<const std::string> functions, const char* target) {
  CAPTURE(target);
  const std::vector<std::string> units = codegen::cuda_units(functions, codegen::cuda_unit_count(functions.size()));
  for (const std::string& cubin : runtime::cuda::compile_units(units, target, runtime::cuda::Effort::check))
    CHECK(!cubin.empty());
}

void check_cuda_compiles(const std::vector<Trial>& trials) {
  for (const char* target : device_generations)
    CHECK_NOTHROW(runtime::cuda::compile_units(cuda_programs(trials), target, runtime::cuda::Effort::check));
}

void check_on_device(std::vector<Trial>& trials) {
  const std::map<std::string, codegen::CudaKernel> kernels = generate(trials);
  std::vector<std::string> names;
  for (const auto& [name, kernel] : kernels) names.push_back(name);
  const auto code = std::make_shared<runtime::cuda::Code>(programs_of(kernels), names, test_device());
  const DeviceInterface& memory = device_interface(Device::Type::cuda);
  for (Trial& trial : trials) {
    const runtime::Plan plan = plan_of(trial, kernels.at(trial.kernel.name), code);
    std::vector<Storage*> storages;
    std::vector<void*> pointers;
    for (std::size_t b = 0; b < trial.buffers.size(); ++b) {
      std::vector<std::byte>& bytes = trial.buffers[b];
      if (trial.kernel.buffers[b].written) std::fill(bytes.begin(), bytes.end(), std::byte{0xAB});
      storages.push_back(allocate(test_device(), bytes.size()));
      pointers.push_back(storages.back()->data);
      memory.copy(pointers.back(), test_device(), bytes.data(), Device::cpu(), bytes.size(), nullptr);
    }
    runtime::run(plan, pointers, {}, {});
    for (std::size_t b = 0; b < trial.buffers.size(); ++b) {
      memory.copy(trial.buffers[b].data(), Device::cpu(), pointers[b], test_device(), trial.buffers[b].size(), nullptr);
      memory.synchronize(test_device());
      release(storages[b]);
    }
    const std::string difference = trial.compare();
    CHECK_MESSAGE(difference.empty(), "on cuda: ", difference);
  }
}

}  // namespace weft::test
