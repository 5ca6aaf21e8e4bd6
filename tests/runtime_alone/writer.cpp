// writer FOLDER: writes runs of plans that all of Weft has made: an MLP, and one of other steps. Prints the names of
// their steps.
#include <cstring>
#include <fstream>
#include <iostream>

#include "pipeline.hpp"
#include "record/record.hpp"
#include "runtime/cache.hpp"
#include "runtime/host/library.hpp"
#include "runtime/plan_file.hpp"
#include "tests/runtime_alone/saved_run.hpp"
#include "weft/loops.hpp"
#include "weft/ops.hpp"

using namespace weft;

namespace {

struct Recording {
  Trace trace;
  TraceScope scope;
  Recording() : scope((trace.id = new_trace_id(), trace)) {}
  Tensor input(DType dtype, Shape shape) {
    const Parameter slot{static_cast<std::int64_t>(trace.inputs.size())};
    return trace.inputs.emplace_back(record(Op::input, {}, slot, Type{dtype, false, {}, shape}, {}));
  }
};

std::size_t bytes_of(const Type& type) {
  return static_cast<std::size_t>(storage_bytes(type.dtype, type.shape.element_count().constant()));
}

template <class F>
void save(const std::string& path, const std::vector<Type>& types, F f) {
  std::vector<Tensor> outputs;
  std::vector<Type> given;
  Graph graph;
  {
    Recording recording;
    std::vector<Tensor> inputs;
    for (const Type& type : types) inputs.push_back(recording.input(type.dtype, type.shape));
    outputs = f(inputs);
    for (const Tensor& output : outputs) given.push_back(type_of(output));
    graph = make_graph(recording.trace.inputs, std::exchange(outputs, {}), recording.trace.effects);
  }
  const auto executable = compile_graph(std::move(graph), {});
  SavedRun saved;
  runtime::FieldWriter to;
  runtime::write_plan(to, executable->plan);
  if (!to.refusal().empty()) throw std::runtime_error(to.refusal());
  saved.plan = to.bytes();
  if (const auto* library = dynamic_cast<const Library*>(executable->plan.functions.get())) {
    saved.kernels = disk_cache()->load(library->key()).value().payload;
    saved.key_low = library->key().low, saved.key_high = library->key().high, saved.units = library->units();
  }
  std::vector<void*> arguments, results;
  for (const Type& type : types) {
    SavedRun::Bytes& bytes = saved.arguments.emplace_back(bytes_of(type));
    for (std::size_t i = 0; i < bytes.size() / 4 && type.dtype == DType::f32; ++i) {
      const float value = static_cast<float>(static_cast<int>(i * 37 % 101) - 50) / 64;
      std::memcpy(bytes.data() + 4 * i, &value, 4);
    }
    for (std::size_t i = 0; i < bytes.size() / 8 && type.dtype == DType::i64; ++i) {
      const std::int64_t value = static_cast<std::int64_t>(i % 3);
      std::memcpy(bytes.data() + 8 * i, &value, 8);
    }
    arguments.push_back(bytes.data());
  }
  for (const Type& type : given) results.push_back(saved.results.emplace_back(bytes_of(type)).data());
  runtime::run(executable->plan, arguments, results, {});
  runtime::FieldWriter file;
  file(saved);
  std::ofstream(path, std::ios::binary) << file.bytes();
  for (const runtime::Launch& launch : executable->plan.launches) std::cout << launch.step->stored_as() << "\n";
}

Type typed(DType dtype, std::initializer_list<Dim> sizes) {
  return {dtype, false, {}, Shape(sizes.begin(), static_cast<int>(sizes.size()))};
}
Type f32(std::initializer_list<Dim> sizes) { return typed(DType::f32, sizes); }
Type i64(std::initializer_list<Dim> sizes) { return typed(DType::i64, sizes); }

}  // namespace

int main(int, char** arguments) {
  const std::string folder = arguments[1];
  using Values = std::vector<Tensor>;
  save(folder + "/mlp", {f32({32, 64}), f32({64, 128}), f32({128}), f32({128, 10}), f32({10})},
       [](const Values& v) { return Values{matmul(relu(matmul(v[0], v[1]) + v[2]), v[3]) + v[4]}; });
  save(folder + "/steps", {f32({6, 8}), i64({4}), f32({4, 8})}, [](const Values& v) {
    const Tensor sorted = argsort(v[0], 1);
    const Tensor rows = index_add(v[0], 0, v[1], v[2]);
    const Tensor sums =
        scan([](const Tensor& sum, const Tensor& x) { return std::pair(sum + x, sum * 2); }, zeros({8}), v[0]).first;
    return Values{sorted, rows, sums};
  });
}
