// Forged packages: fields of every kind that nobody wrote, each under a right digest, and bytes at random.
#include "package/forged.hpp"
#include "runtime/factorization.hpp"
#include "runtime/host/depthwise.hpp"
#include "runtime/host/direct_convolution.hpp"
#include "runtime/host/isa.hpp"
#include "runtime/host/onednn_convolution.hpp"
#include "runtime/host/steps.hpp"
#include "runtime/loop.hpp"
#include "tests/needs_compiler.hpp"

using namespace package_test;
using weft::test::a_compiler;
using weft::test::needs;

namespace {

using runtime::PackageFile, runtime::PackageSpecialization, runtime::Plan, runtime::PlanBuffer;

const Folder& shared_folder() {
  static const Folder folder;
  return folder;
}
const Forgeable& named(const char* name) {
  static const std::vector<Forgeable> all = forgeables(shared_folder());
  return *std::ranges::find(all, name, &Forgeable::name);
}

// What it says where the package is another one: when it is loaded, or called.
std::string changed(const char* name, const std::function<void(PackageFile&)>& change) {
  const Forgeable& of = named(name);
  PackageFile file = runtime::parse_package(of.bytes, runtime::read_step);
  change(file);
  std::string refusal;
  const std::string bytes = runtime::write_package(file, refusal), path = shared_folder().file("changed.weft");
  REQUIRE(refusal == "");
  write(path, bytes);
  return message_of([&] { of.call(path); });
}
using ChangeSpecialization = std::function<void(PackageSpecialization&)>;
std::string changed_in(const char* name, const ChangeSpecialization& change) {
  return changed(name, [&](PackageFile& file) { change(file.entries.at(0).specializations.at(0)); });
}
void refused(const char* name, const ChangeSpecialization& change) {
  static int count = 0;
  const int number = ++count;  // of the change, in the order in which they are here
  CAPTURE(number);
  CAPTURE(std::string(name));
  const std::string message = changed_in(name, change);
  CAPTURE(message);
  CHECK(message != "(nothing thrown)");
  CHECK(message.starts_with("["));
}
// The first step of a kind has other fields.
template <class Stored>
void refused_step(const char* name, const std::function<void(decltype(Stored::what)&)>& change) {
  refused(name, [&](PackageSpecialization& made) {
    for (runtime::Launch& launch : made.plan.launches)
      if (const auto* const step = dynamic_cast<const Stored*>(launch.step.get())) {
        auto other = std::make_shared<Stored>(*step);
        change(other->what);
        launch.step = other;
        return;
      }
    FAIL("no step ", Stored::name, " in ", name);
  });
}

// Bytes as they are, in a step's place.
class RawStep final : public runtime::Preparable {
 public:
  RawStep(std::string name, std::string bytes) : name_(std::move(name)), bytes_(std::move(bytes)) {}
  std::unique_ptr<runtime::Runnable> prepare(const runtime::Preparation&) const override { return nullptr; }
  std::string stored_as() const override { return name_; }
  void write(runtime::FieldWriter& to, const runtime::EntryPoint&) const override {
    for (const char byte : bytes_) to(byte);
  }

 private:
  std::string name_, bytes_;
};
// A loop's own fields; its bodies stay.
void refused_loop(const char* name, const std::function<void(runtime::LoopDescription&)>& change) {
  refused(name, [&](PackageSpecialization& made) {
    for (runtime::Launch& launch : made.plan.launches) {
      if (launch.step->stored_as() != runtime::StoredLoop::name) continue;
      runtime::FieldWriter was, head, other;
      launch.step->write(was, launch.entry);
      runtime::FieldReader from(was.bytes());
      const auto kind = from.take<runtime::LoopKind>();
      auto loop = from.take<runtime::LoopDescription>();
      const auto cost = from.take<runtime::StepCost>();
      head(kind, loop, cost);
      change(loop);
      other(kind, loop, cost);
      launch.step =
          std::make_shared<RawStep>(runtime::StoredLoop::name, other.bytes() + was.bytes().substr(head.bytes().size()));
      return;
    }
    FAIL("no loop");
  });
}

PlanBuffer& first_of(PackageSpecialization& made, PlanBuffer::Kind kind) {
  for (const runtime::Launch& launch : made.plan.launches)
    for (const int b : launch.buffers)
      if (PlanBuffer& buffer = made.plan.buffers[static_cast<std::size_t>(b)]; buffer.kind == kind) return buffer;
  FAIL("no such buffer");
  return made.plan.buffers[0];
}
constexpr std::int64_t huge = std::int64_t{1} << 55;

}  // namespace

TEST_CASE("what nobody changed is what it was" * needs(a_compiler)) {
  for (const char* const name : {"forward", "a training step", "scan", "argsort", "rows", "factorizations"})
    CHECK(changed_in(name, [](PackageSpecialization&) {}) == "(nothing thrown)");
}

TEST_CASE("forged buffers of a plan are refused" * needs(a_compiler)) {
  using Kind = PlanBuffer::Kind;
  const auto of = [](const char* name, Kind kind, const std::function<void(PlanBuffer&, Plan&)>& change) {
    refused(name, [&](PackageSpecialization& made) { change(first_of(made, kind), made.plan); });
  };
  for (const char* const name : {"a training step", "scan", "products"}) {
    of(name, Kind::argument, [](PlanBuffer& it, Plan&) { it.elements = it.elements * Dim(2); });
    of(name, Kind::argument, [](PlanBuffer& it, Plan& plan) { it.index = plan.argument_count; });
    of(name, Kind::argument, [](PlanBuffer& it, Plan&) { it.elements = dims::symbol(77); });
    of(name, Kind::argument, [](PlanBuffer& it, Plan&) { it.elements = -1; });
    of(name, Kind::argument, [](PlanBuffer& it, Plan&) { it.elements = 1; });
    of(name, Kind::result, [](PlanBuffer& it, Plan&) { it.elements = it.elements + Dim(1); });
    of(name, Kind::result, [](PlanBuffer& it, Plan& plan) { it.index = plan.result_count; });
    of(name, Kind::result, [](PlanBuffer& it, Plan&) { it.kind = Kind::error; });
    of(name, Kind::result, [](PlanBuffer& it, Plan&) { it.host = true; });
    of(name, Kind::result, [](PlanBuffer& it, Plan&) { it.dtype = it.dtype == DType::f64 ? DType::f32 : DType::f64; });
    of(name, Kind::result, [](PlanBuffer& it, Plan&) { it.kind = Kind::argument, it.index = 0; });
  }
  for (const char* const name : {"a training step", "products"}) {
    of(name, Kind::temporary, [](PlanBuffer& it, Plan&) { it.offset = it.offset + Dim(huge); });
    of(name, Kind::temporary, [](PlanBuffer& it, Plan& plan) { it.offset = plan.arena_bytes; });
    of(name, Kind::temporary, [](PlanBuffer& it, Plan&) { it.offset = -64; });
    of(name, Kind::temporary, [](PlanBuffer& it, Plan&) { it.offset = it.offset + Dim(4); });
    of(name, Kind::temporary, [](PlanBuffer& it, Plan& plan) { it.in_result = plan.result_count; });
    of(name, Kind::temporary, [](PlanBuffer& it, Plan&) { it.in_result = 0, it.offset = huge; });
    of(name, Kind::temporary, [](PlanBuffer&, Plan& plan) { plan.arena_bytes = 0; });
    of(name, Kind::temporary, [](PlanBuffer&, Plan& plan) { plan.arena_bytes = -1; });
    of(name, Kind::temporary, [](PlanBuffer& it, Plan&) { it.kind = Kind::constant, it.index = 0; });
  }
}

TEST_CASE("forged steps and kernels are refused" * needs(a_compiler)) {
  const auto first = [](const ChangeSpecialization& change) { refused("forward of any size", change); };
  const auto kernel = [](PackageSpecialization& made) -> runtime::Launch& {
    return *std::ranges::find_if(made.plan.launches, [](const auto& each) { return !each.entry.name.empty(); });
  };
  first([](PackageSpecialization& made) { made.plan.launches[0].buffers[0] = 1000; });
  first([](PackageSpecialization& made) { made.plan.launches[0].buffers.pop_back(); });
  first([](PackageSpecialization& made) { made.plan.launches[0].buffers.clear(); });
  first([&](PackageSpecialization& made) { kernel(made).entry.units = kernel(made).entry.units * Dim(2); });
  first([&](PackageSpecialization& made) { kernel(made).entry.name = "another"; });
  first([&](PackageSpecialization& made) { kernel(made).entry.name = "memset"; });
  first([&](PackageSpecialization& made) { kernel(made).entry.name.clear(); });
  first([](PackageSpecialization& made) { made.library = 7; });
  first([](PackageSpecialization& made) { made.library = PackageSpecialization::no_library; });
  first([](PackageSpecialization& made) { made.symbols.at(0).lower = 0; });
  first([](PackageSpecialization& made) { made.symbols.at(0).upper = huge; });
  first([](PackageSpecialization& made) { made.symbols.clear(); });
  first([](PackageSpecialization& made) { made.plan.symbol_count = 0; });
  first([](PackageSpecialization& made) { made.plan.symbol_count = 2; });
  refused_step<runtime::StoredKernel>("forward of any size", [](auto& what) { what.parameters.at(0).push_back(huge); });
  refused_step<runtime::StoredKernel>("forward of any size", [](auto& what) { what.parameters.clear(); });
  const auto product = [](const std::function<void(Contraction&)>& change) {
    refused_step<runtime::StoredProduct>("products", change);
  };
  product([](Contraction& what) { what.m = what.m * Dim(2); });
  product([](Contraction& what) { what.m = -1; });
  product([](Contraction& what) { what.k = huge; });
  product([](Contraction& what) { what.a_offset = 1; });
  product([](Contraction& what) { what.b_offset = -1; });
  product([](Contraction& what) { what.c_offset = dims::symbol(40); });
  product([](Contraction& what) { what.a_row = what.a_row + Dim(1); });
  product([](Contraction& what) { what.c_column = huge; });
  product([](Contraction& what) { what.batch.at(0) = 100; });
  product([](Contraction& what) { what.a_batch.clear(); });
  product([](Contraction& what) { what.dtype = DType::f64; });
  product([](Contraction& what) { what.dtype = DType::i32; });
  product([](Contraction& what) { what.has_bias = true; });
  product([](Contraction& what) { what.a_matrices = 3; });
  using Sort = runtime::SortFields;
  refused_step<runtime::StoredSort>("argsort", [](Sort& what) { what.count = what.size + Dim(1); });
  refused_step<runtime::StoredSort>("argsort", [](Sort& what) { what.first = 1; });
  refused_step<runtime::StoredSort>("argsort", [](Sort& what) { what.rows = what.rows * Dim(3); });
  refused_step<runtime::StoredSort>("argsort", [](Sort& what) { what.dtype = DType::f64; });
  using Slice = runtime::SliceUpdate;
  refused_step<runtime::StoredSliceUpdate>("slices", [](Slice& what) { what.length = what.size + Dim(1); });
  refused_step<runtime::StoredSliceUpdate>("slices", [](Slice& what) { what.outer = 2; });
  refused_step<runtime::StoredSliceUpdate>("slices", [](Slice& what) { what.element = 16; });
  refused_step<runtime::StoredSliceUpdate>("slices", [](Slice& what) { what.element = 0; });
  refused_step<runtime::StoredSliceUpdate>("slices", [](Slice& what) { what.offsets.at(1) = 1; });
  refused_step<runtime::StoredSliceUpdate>("slices", [](Slice& what) { what.offsets.at(2) = huge; });
  refused_step<runtime::StoredSliceUpdate>("slices", [](Slice& what) { what.offsets.clear(); });
  using Rows = runtime::ScatterFields;
  refused_step<runtime::StoredScatter>("rows", [](Rows& what) { what.rows = what.rows * Dim(2); });
  refused_step<runtime::StoredScatter>("rows", [](Rows& what) { what.count = what.count + Dim(1); });
  refused_step<runtime::StoredScatter>("rows", [](Rows& what) { what.width = -1; });
  refused_step<runtime::StoredScatter>("rows", [](Rows& what) { what.dtype = DType::f16; });
  if (host_isa() >= Isa::avx2) {
    using Fields = runtime::DirectConvolutionFields;
    const auto refused_convolution = [](const std::function<void(Fields&)>& change) {
      refused_step<runtime::StoredDirectConvolution>("convolution of one image", change);
    };
    for (const std::size_t value : {0, 1, 2}) {
      refused_convolution([=](Fields& what) { what.offsets.at(value) = 1; });
      refused_convolution([=](Fields& what) { what.offsets.at(value) = huge; });
    }
    refused_convolution([](Fields& what) { what.offsets.pop_back(); });
    // Another convolution, of more outputs, and one that it does not do.
    const auto other = [](const Shape& weight, const Shape& result, std::int64_t groups) {
      const std::int64_t ones[] = {1, 1}, none[] = {0, 0};
      return [=](Fields& what) {
        what.dims = *runtime::ConvolutionDims::of(runtime::Convolved::output, DType::f32, Shape::of(1, 3, 9, 9), weight,
                                                  result, ones, none, none, ones, groups);
      };
    };
    refused_convolution(other(Shape::of(9, 3, 3, 3), Shape::of(1, 9, 7, 7), 1));
    refused_convolution(other(Shape::of(8, 3, 3, 3), Shape::of(1, 8, 8, 7), 1));
    refused_convolution(other(Shape::of(3, 1, 3, 3), Shape::of(1, 3, 7, 7), 3));
    using Sizes = runtime::DepthwiseSizes;
    const auto refused_depthwise = [](const std::function<void(Sizes&)>& change) {
      refused_step<runtime::StoredDepthwise>("depthwise convolution", [&](auto& what) { change(what.sizes); });
    };
    for (std::int64_t Sizes::*const number : {&Sizes::batch, &Sizes::channels, &Sizes::input_item, &Sizes::output_item,
                                              &Sizes::input_offset, &Sizes::weight_offset, &Sizes::output_offset}) {
      refused_depthwise([=](Sizes& sizes) { sizes.*number += 1; });
      refused_depthwise([=](Sizes& sizes) { sizes.*number = -1; });
      refused_depthwise([=](Sizes& sizes) { sizes.*number = huge; });
    }
    for (auto Sizes::*const numbers : {&Sizes::size, &Sizes::kernel, &Sizes::positions})
      for (const std::size_t axis : {0, 1}) {
        refused_depthwise([=](Sizes& sizes) { (sizes.*numbers)[axis] += 1; });
        refused_depthwise([=](Sizes& sizes) { (sizes.*numbers)[axis] = 0; });
        refused_depthwise([=](Sizes& sizes) { (sizes.*numbers)[axis] = huge; });
      }
    for (const std::size_t axis : {0, 1}) {
      refused_depthwise([=](Sizes& sizes) { sizes.step[axis] = axis == 0 ? 64 : 3; });
      refused_depthwise([=](Sizes& sizes) { sizes.step[axis] = 0; });
      refused_depthwise([=](Sizes& sizes) { sizes.low[axis] = sizes.kernel[axis]; });
      refused_depthwise([=](Sizes& sizes) { sizes.low[axis] = -1; });
    }
  }
  using Fields = runtime::FactorizationFields;
  refused_step<runtime::StoredFactorization>("factorizations", [](Fields& what) { what.sizes.rows = 5; });
  refused_step<runtime::StoredFactorization>("factorizations", [](Fields& what) { what.sizes.batch = 2; });
  refused_step<runtime::StoredFactorization>(
      "factorizations", [](Fields& what) { what.what.kind = Factorization::Kind::svd, what.what.full = true; });
  refused_step<runtime::StoredFactorization>("factorizations", [](Fields& what) { what.what.dtype = DType::f64; });
  refused_step<runtime::StoredFactorization>("transforms", [](Fields& what) { what.sizes.columns = 10; });
}

TEST_CASE("forged loops are refused" * needs(a_compiler)) {
  using Loop = runtime::LoopDescription;
  for (const char* const name : {"scan", "while_loop", "cond"}) {
    refused_loop(name, [](Loop& loop) { loop.operands.at(0).bytes = loop.operands.at(0).bytes + Dim(64); });
    refused_loop(name, [](Loop& loop) { loop.operands.back().offset = huge; });
    refused_loop(name, [](Loop& loop) { loop.operands.back().offset = -8; });
    refused_loop(name, [](Loop& loop) { loop.operands.pop_back(); });
    refused_loop(name, [](Loop& loop) { loop.operands.clear(); });
    refused_loop(name, [](Loop& loop) { loop.results.at(0).bytes = loop.results.at(0).bytes * Dim(100); });
    refused_loop(name, [](Loop& loop) { loop.carries = std::size_t{1} << 62; });
    refused_loop(name, [](Loop& loop) { loop.scanned = SIZE_MAX; });
    refused_loop(name, [](Loop& loop) { loop.asked = 1 << 20; });
    refused_loop(name, [](Loop& loop) { loop.in_place.push_back(true); });
  }
  refused_loop("scan", [](Loop& loop) { loop.length = loop.length + Dim(1); });
  refused_loop("scan", [](Loop& loop) { loop.length = -1; });
  refused_loop("scan", [](Loop& loop) { loop.length = huge; });
}

TEST_CASE("forged arguments, results and state are refused" * needs(a_compiler)) {
  const auto step = [](const ChangeSpecialization& change) { refused("a training step", change); };
  using Leaf = runtime::PackageLeaf;
  using Source = runtime::Source::Kind;
  const auto number = [](PackageSpecialization& made) -> Leaf& {
    return *std::ranges::find(made.arguments, Leaf::Kind::number, &Leaf::kind);
  };
  step([](PackageSpecialization& made) { made.arguments.at(0).argument = 9; });
  step([](PackageSpecialization& made) { made.arguments.at(0).argument = 1; });
  step([](PackageSpecialization& made) { made.arguments.at(0).kind = Leaf::Kind::number; });
  step([](PackageSpecialization& made) { made.arguments.at(0).kind = static_cast<Leaf::Kind>(77); });
  step([](PackageSpecialization& made) { made.arguments.at(0).sizes.at(0) = -3; });
  step([](PackageSpecialization& made) { made.arguments.at(0).sizes.at(0) = dims::symbol(3); });
  step([](PackageSpecialization& made) { made.arguments.at(0).sizes.resize(40, 1); });
  step([](PackageSpecialization& made) { made.arguments.at(0).device = Device::cuda(0); });
  step([](PackageSpecialization& made) { made.arguments.erase(made.arguments.begin()); });
  step([](PackageSpecialization& made) { made.arguments.push_back(made.arguments.back()); });
  step([&](PackageSpecialization& made) { number(made).bytes.resize(100); });
  step([&](PackageSpecialization& made) { number(made).kind = Leaf::Kind::list; });
  step([](PackageSpecialization& made) { made.inputs.at(0) = 10000; });
  step([](PackageSpecialization& made) { made.inputs.pop_back(); });
  step([](PackageSpecialization& made) { made.inputs.at(0) = PackageSpecialization::generator_state; });
  step([](PackageSpecialization& made) { made.outputs.at(0).sizes.assign(1, 0); });
  step([](PackageSpecialization& made) { made.outputs.at(0).sizes.assign(1, -5); });
  step([](PackageSpecialization& made) { made.outputs.at(0).sizes.assign(8, huge); });
  step([](PackageSpecialization& made) { made.outputs.at(0).dtype = DType::u8; });
  step([](PackageSpecialization& made) { made.outputs.at(0).device = Device::cuda(0); });
  step([](PackageSpecialization& made) { made.outputs.at(0).donor = 10000; });
  step([](PackageSpecialization& made) { made.outputs.pop_back(); });
  step([](PackageSpecialization& made) { made.results.at(0).index = 10000; });
  step([](PackageSpecialization& made) { made.results.clear(); });
  step([](PackageSpecialization& made) { made.result.clear(); });
  step([](PackageSpecialization& made) { made.result.at(0).kind = Leaf::Kind::list; });
  step([](PackageSpecialization& made) { made.states.at(0).leaf = 10000; });
  step([](PackageSpecialization& made) { made.states.at(0).source = {Source::computed, 10000}; });
  step([](PackageSpecialization& made) { made.numbers.push_back({0, "12345678"}); });
  step([](PackageSpecialization& made) { made.generator = {Source::computed, 0}; });
  step([](PackageSpecialization& made) { made.plan.argument_count += 1; });
  step([](PackageSpecialization& made) { made.plan.result_count = 1 << 30; });
  step([](PackageSpecialization& made) { made.plan.donations.push_back({1000, 0}); });
  refused("draws", [](PackageSpecialization& made) { made.generator = {Source::computed, 7}; });
}

TEST_CASE("a forged table of parts, and forged weights, are refused" * needs(a_compiler)) {
  const Folder folder;
  Mlp model;
  const Tensor x = normal({5, 6});
  const std::string file = folder.file("f.weft");
  package(file, {"f", {.weights = true}},
          compile([](const Mlp& model, const Tensor& x) { return model(x); }, bind(model)), x);
  const std::string bytes = read(file);
  const auto call = [&](const std::string& forged) {
    write(file, forged);
    return message_of([&] { (void)bits_of(load_package(file).function<Tensor(const Tensor&)>("f")(x)); });
  };
  CHECK(call(sealed(bytes)) == "(nothing thrown)");
  constexpr std::size_t table = 16, row = 40;
  for (std::size_t section = 0; section < 3; ++section)
    for (const std::size_t field : {0, 1, 2})  // kind, offset, size
      for (const std::uint64_t number : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{77},
                                         std::uint64_t{4096}, std::uint64_t{1} << 40, ~std::uint64_t{0}}) {
        std::string forged = bytes;
        char* const at = forged.data() + table + 8 + section * row + field * 8;
        if (std::memcmp(at, &number, 8) == 0) continue;
        std::memcpy(at, &number, 8);
        const PlansPart plans = plans_of(bytes);
        const Digest own = digest(std::string_view(forged).substr(0, plans.table_end));
        std::memcpy(forged.data() + plans.table_end, &own.low, 8);
        std::memcpy(forged.data() + plans.table_end + 8, &own.high, 8);
        const std::string message = call(forged);
        CAPTURE(section);
        CAPTURE(field);
        CAPTURE(number);
        CHECK(message.starts_with("[load_package] "));
      }
  // The table says that it has more rows.
  for (const std::uint64_t count : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{4}, ~std::uint64_t{0}}) {
    std::string forged = bytes;
    std::memcpy(forged.data() + table, &count, 8);
    CHECK(call(forged).starts_with("[load_package] "));
  }
  const auto weights = [&](const std::function<void(PackageFile&)>& change) {
    PackageFile parsed = runtime::parse_package(bytes, runtime::read_step);
    const std::size_t first = static_cast<std::size_t>(parsed.weights[0].bytes.data() - bytes.data());
    std::size_t section = first / 4096 * 4096;
    parsed.weights_header = bytes.substr(section, first - section);
    const std::string data = bytes.substr(first);
    change(parsed);
    std::string refusal;
    const std::string message = call(runtime::write_package(parsed, refusal) + data);
    CAPTURE(message);
    CHECK(message.starts_with("["));
  };
  weights([](PackageFile& it) { it.weights[0].offset = 2; });
  weights([](PackageFile& it) { it.weights[0].offset = huge; });
  weights([](PackageFile& it) { it.weights[0].sizes[0] = 1; });
  weights([](PackageFile& it) { it.weights[0].sizes[0] = -1; });
  weights([](PackageFile& it) { it.weights[0].sizes = {huge, huge}; });
  weights([](PackageFile& it) { it.weights[0].dtype = DType::u8; });
  weights([](PackageFile& it) { it.weights.pop_back(); });
  weights([](PackageFile& it) { it.weights.clear(); });
  weights([](PackageFile& it) { it.entries[0].specializations[0].inputs[0] = PackageSpecialization::weight(99); });
  weights([](PackageFile& it) { it.entries[0].specializations[0].inputs[0] = PackageSpecialization::weight(1); });
}

TEST_CASE("what a size or a count says takes no more memory than the file has bytes" * needs(a_compiler)) {
  // (s + 1) (t + 2) (s + 3) ...: a billion terms, if somebody multiplied them.
  const auto blown_up = [](runtime::FieldWriter& to) {
    constexpr std::uint8_t symbol = 1, sum = 4;
    to(sum, std::size_t{1}, std::int64_t{1}, std::size_t{40});
    for (int i = 0; i < 40; ++i)
      to(sum, std::size_t{2}, std::int64_t{1}, std::size_t{1}, symbol, i % 20, std::int64_t{2}, std::int64_t{i + 1},
         std::size_t{0});
  };
  runtime::FieldWriter bytes, many, count;
  blown_up(bytes);
  runtime::FieldReader from(bytes.bytes());
  CHECK_THROWS_AS(from.take<Dim>(), runtime::Malformed);
  constexpr std::uint8_t sum = 4;
  many(sum, std::size_t{20000});
  for (int i = 0; i < 20000; ++i) many(std::int64_t{1}, std::size_t{1}, std::uint8_t{1}, i, std::int64_t{2});
  runtime::FieldReader from_many(many.bytes());
  CHECK_THROWS_AS(from_many.take<Dim>(), runtime::Malformed);
  count(std::size_t{1} << 60);
  runtime::FieldReader from_count(count.bytes());
  CHECK_THROWS_AS(from_count.take<std::vector<std::string>>(), runtime::Malformed);
  runtime::FieldReader from_text(count.bytes());
  CHECK_THROWS_AS(from_text.take<std::string>(), runtime::Malformed);
}

TEST_CASE("a package of bytes at random is a sentence, or computes within its memory" * needs(a_compiler)) {
  const Folder folder;
  const int each = 300 / weft::test::less_when_sanitized;
  Outcomes all;
  for (const Forgeable& of : forgeables(folder)) {
    const Outcomes found =
        call_forged(of, folder, each, [&](int number) { return with_other_bytes(of.bytes, number); });
    all.refused += found.refused, all.computed += found.computed, all.endless += found.endless;
  }
  MESSAGE(all.refused << " refused, " << all.computed << " computed, " << all.endless << " without an end");
  CHECK(all.refused > all.computed);
}
