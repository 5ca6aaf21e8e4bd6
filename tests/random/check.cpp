#include "random/check.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>

#include "base/options.hpp"
#include "interpret/reference.hpp"
#include "pipeline.hpp"
#include "record/evaluate.hpp"
#include "record/record.hpp"
#include "tests/cuda/device.hpp"
#include "tests/sanitized.hpp"

namespace weft::testing {
namespace {

using Bytes = std::vector<std::byte>;

template <class T, class From>
void encode_as(const std::vector<From>& from, Bytes& to) {
  to.resize(from.size() * sizeof(T));
  for (std::size_t i = 0; i < from.size(); ++i) {
    T value = static_cast<T>(from[i]);
    std::memcpy(to.data() + i * sizeof(T), &value, sizeof value);
  }
}
template <class T, class To>
void decode_as(const Bytes& from, std::vector<To>& to) {
  to.resize(from.size() / sizeof(T));
  for (std::size_t i = 0; i < to.size(); ++i) {
    T value;
    std::memcpy(&value, from.data() + i * sizeof(T), sizeof value);
    to[i] = static_cast<To>(value);
  }
}

Bytes encode(const Literal& value) {
  Bytes bytes;
  switch (value.type.dtype) {
    case DType::f32: encode_as<float>(value.reals, bytes); break;
    case DType::f64: encode_as<double>(value.reals, bytes); break;
    case DType::i64: encode_as<std::int64_t>(value.integers, bytes); break;
    case DType::i32: encode_as<std::int32_t>(value.integers, bytes); break;
    case DType::u32: encode_as<std::uint32_t>(value.integers, bytes); break;
    case DType::i16: encode_as<std::int16_t>(value.integers, bytes); break;
    case DType::u16: encode_as<std::uint16_t>(value.integers, bytes); break;
    case DType::i8: encode_as<std::int8_t>(value.integers, bytes); break;
    default: encode_as<std::uint8_t>(value.integers, bytes); break;
  }
  return bytes;
}
Literal decode(const Type& type, const Bytes& bytes) {
  Literal value{type};
  switch (type.dtype) {
    case DType::f32: decode_as<float>(bytes, value.reals); break;
    case DType::f64: decode_as<double>(bytes, value.reals); break;
    case DType::i64: decode_as<std::int64_t>(bytes, value.integers); break;
    case DType::i32: decode_as<std::int32_t>(bytes, value.integers); break;
    case DType::u32: decode_as<std::uint32_t>(bytes, value.integers); break;
    case DType::i16: decode_as<std::int16_t>(bytes, value.integers); break;
    case DType::u16: decode_as<std::uint16_t>(bytes, value.integers); break;
    case DType::i8: decode_as<std::int8_t>(bytes, value.integers); break;
    default: decode_as<std::uint8_t>(bytes, value.integers); break;
  }
  return value;
}

std::int64_t count_of(const std::vector<std::int64_t>& sizes) {
  std::int64_t count = 1;
  for (std::int64_t size : sizes) count *= size;
  return count;
}

}  // namespace

Literal random_input(const ProgramInput& input, std::mt19937_64& random) {
  Literal value{Type{input.dtype, false, {}, {}}};
  for (std::int64_t size : input.sizes) value.type.shape.push_back(size);
  std::normal_distribution<double> normal(0, 1.5);
  for (std::int64_t i = 0; i < count_of(input.sizes); ++i) {
    if (is_floating(input.dtype)) {
      double x = random() % 16 == 0 ? (random() % 2 ? 0.0 : -0.0) : normal(random);
      value.reals.push_back(round_to(input.dtype, x));
    } else if (input.dtype == DType::boolean) {
      value.integers.push_back(static_cast<std::int64_t>(random() % 2));
    } else {
      value.integers.push_back(static_cast<std::int64_t>(random() % 11) -
                               (integer_range(input.dtype).least == 0 ? 0 : 5));
    }
  }
  return value;
}

Tensor tensor_of(const Literal& value) {
  const Bytes bytes = encode(value);
  const auto count = static_cast<std::size_t>(std::max(value.reals.size(), value.integers.size()));
  return to(detail::copy_in(bytes.data(), value.type.dtype, value.type.shape, count, detail::HostData::from_span, {}),
            test::test_device());
}
Literal literal_of(const Tensor& value) {
  const Type& type = type_of(value);
  const std::int64_t count = type.shape.element_count().constant();
  Bytes bytes(storage_bytes(type.dtype, count));
  detail::copy_out(value, type.dtype, bytes.data(), static_cast<std::size_t>(count), {});
  return decode(type, bytes);
}

static bool same_class(double a, double b) { return std::isnan(a) == std::isnan(b) && std::isinf(a) == std::isinf(b); }

Expected expect(const Graph& graph, std::span<const Literal> inputs, std::span<const std::int64_t> symbols,
                std::uint64_t runs) {
  Expected expected{interpret(graph, inputs, symbols), {}};
  expected.spread = expected.values;
  for (Literal& value : expected.spread) {
    std::size_t count = std::max(value.reals.size(), value.integers.size());
    value.reals.assign(count, 0);
  }
  for (std::uint64_t run = 1; run <= runs; ++run) {
    Perturbation perturbation{run * 0x9e3779b97f4a7c15ull, 3};
    std::vector<Literal> moved;
    try {
      moved = interpret(graph, inputs, symbols, &perturbation);
    } catch (const Error&) {  // a moved index left its range
      for (Literal& value : expected.spread) value.reals.assign(value.reals.size(), NAN);
      return expected;
    }
    for (std::size_t o = 0; o < moved.size(); ++o) {
      std::vector<double>& spread = expected.spread[o].reals;
      for (std::size_t i = 0; i < spread.size(); ++i) {
        if (is_floating(moved[o].type.dtype)) {
          double x = expected.values[o].reals[i], y = moved[o].reals[i];
          if (!same_class(x, y))
            spread[i] = NAN;
          else if (std::isfinite(x))
            spread[i] = std::max(spread[i], std::fabs(x - y));
          else if (std::isinf(x) && x != y)
            spread[i] = NAN;
        } else if (moved[o].integers[i] != expected.values[o].integers[i]) {
          spread[i] = NAN;
        }
      }
    }
  }
  return expected;
}

std::string compare(const char* executor, const Expected& expected, const std::vector<Literal>& got,
                    Statistics& statistics) {
  for (std::size_t o = 0; o < got.size(); ++o) {
    const Literal &want = expected.values[o], &have = got[o];
    const std::vector<double>& spread = expected.spread[o].reals;
    if (have.reals.size() != want.reals.size() || have.integers.size() != want.integers.size())
      return std::string(executor) + ": output " + std::to_string(o) + " has another number of elements";
    for (std::size_t i = 0; i < spread.size(); ++i) {
      if (std::isnan(spread[i])) {
        ++statistics.undecided;
        continue;
      }
      ++statistics.compared;
      bool fine;
      if (is_floating(want.type.dtype)) {
        double x = want.reals[i], y = have.reals[i];
        double least = want.type.dtype == DType::f64 ? 0x1p-1070 : 0x1p-145;
        fine = std::isnan(x) ? std::isnan(y) : std::isinf(x) ? x == y : std::fabs(x - y) <= 8 * spread[i] + least;
      } else {
        fine = want.integers[i] == have.integers[i];
      }
      if (!fine) {
        char text[200];
        if (is_floating(want.type.dtype))
          std::snprintf(text, sizeof text, "output %zu element %zu is %.9g, reference %.9g, allowed %.3g", o, i,
                        have.reals[i], want.reals[i], 8 * spread[i]);
        else
          std::snprintf(text, sizeof text, "output %zu element %zu is %lld, reference %lld", o, i,
                        static_cast<long long>(have.integers[i]), static_cast<long long>(want.integers[i]));
        return std::string(executor) + ": " + text;
      }
    }
  }
  return {};
}

namespace {

// The program as a graph; sizes of 2 and more as symbols when asked, equal sizes as one.
Graph trace(const Program& program, bool symbolic, Device device = {}) {
  Trace trace;
  trace.id = new_trace_id();
  TraceScope scope(trace);
  std::map<std::int64_t, Dim> symbols;
  std::vector<Tensor> inputs;
  for (const ProgramInput& input : program.inputs) {
    Shape shape;
    for (std::int64_t size : input.sizes) {
      if (!symbolic || size < 2) {
        shape.push_back(size);
        continue;
      }
      auto [found, fresh] = symbols.emplace(size, Dim(0));
      if (fresh) found->second = trace.dims.new_symbol(size);
      shape.push_back(found->second);
    }
    inputs.push_back(record(Op::input, {}, Parameter{static_cast<std::int64_t>(inputs.size())},
                            Type{input.dtype, false, device, shape}, {}));
  }
  std::vector<Tensor> outputs = replay(program, inputs);
  Graph graph = make_graph(inputs, outputs, trace.effects);
  graph.symbols = trace.dims.symbols;
  graph.conditions = trace.dims.conditions;
  return graph;
}

std::vector<std::int64_t> hints(const Graph& graph) {
  std::vector<std::int64_t> values;
  for (const DimSymbol& symbol : graph.symbols) values.push_back(symbol.hint);
  return values;
}

// The plan of a device, between copies: what is no host buffer of the plan has memory there for the call.
void run_on_device(const runtime::Plan& plan, std::vector<Bytes>& arguments, std::vector<Bytes>& results,
                   std::vector<void*> argument_pointers, std::vector<void*> result_pointers,
                   std::span<const std::int64_t> symbols) {
  const DeviceInterface& memory = device_interface(Device::Type::cuda);
  const auto on_host = [&](runtime::PlanBuffer::Kind kind, std::size_t index) {
    for (const runtime::PlanBuffer& buffer : plan.buffers)
      if (buffer.kind == kind && buffer.index == static_cast<int>(index)) return buffer.host;
    return false;
  };
  std::vector<Storage*> storages;
  std::map<void*, void*> moved;  // the host's memory: the device's
  const auto move = [&](Bytes& bytes, void*& pointer, runtime::PlanBuffer::Kind kind, std::size_t index) {
    if (on_host(kind, index)) return;
    if (!moved.contains(pointer)) {
      storages.push_back(allocate(plan.device, bytes.size()));
      memory.copy(storages.back()->data, plan.device, bytes.data(), Device::cpu(), bytes.size(), nullptr);
      moved[pointer] = storages.back()->data;
    }
    pointer = moved[pointer];
  };
  for (std::size_t i = 0; i < arguments.size(); ++i)
    move(arguments[i], argument_pointers[i], runtime::PlanBuffer::Kind::argument, i);
  const std::vector<void*> host_results = result_pointers;
  for (std::size_t i = 0; i < results.size(); ++i)
    move(results[i], result_pointers[i], runtime::PlanBuffer::Kind::result, i);
  runtime::run(plan, argument_pointers, result_pointers, symbols);
  for (std::size_t i = 0; i < results.size(); ++i)
    if (result_pointers[i] != host_results[i])
      memory.copy(host_results[i], Device::cpu(), result_pointers[i], plan.device, results[i].size(), nullptr);
  memory.synchronize(plan.device);
  for (Storage* storage : storages) release(storage);
}

// `donate`: results that may take an argument's memory do.
std::vector<Literal> run_plan(const Executable& executable, const std::vector<Literal>& outputs,
                              std::span<const Literal> inputs, std::span<const std::int64_t> symbols, bool donate) {
  std::vector<Bytes> arguments, results;
  for (const Literal& input : inputs) arguments.push_back(encode(input));
  std::vector<void*> argument_pointers, result_pointers;
  for (Bytes& bytes : arguments) {
    bytes.resize(std::max<std::size_t>(bytes.size(), 8));
    argument_pointers.push_back(bytes.data());
  }
  std::vector<std::size_t> sizes;
  for (const Literal& output : outputs) {
    sizes.push_back(storage_bytes(output.type.dtype,
                                  static_cast<std::int64_t>(std::max(output.reals.size(), output.integers.size()))));
    results.emplace_back(std::max<std::size_t>(sizes.back(), 8), std::byte{0xAB});
  }
  for (Bytes& bytes : results) result_pointers.push_back(bytes.data());
  if (donate)
    for (const runtime::Plan::Donation& donation : executable.plan.donations)
      result_pointers[static_cast<std::size_t>(donation.result)] =
          argument_pointers[static_cast<std::size_t>(donation.argument)];
  if (executable.plan.device.type != Device::Type::cpu) {
    run_on_device(executable.plan, arguments, results, argument_pointers, result_pointers, symbols);
  } else {
    runtime::run(executable.plan, argument_pointers, result_pointers, symbols);
  }
  std::vector<Literal> values;
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    Bytes bytes(sizes[o]);
    if (sizes[o]) std::memcpy(bytes.data(), result_pointers[o], sizes[o]);
    values.push_back(decode(outputs[o].type, bytes));
  }
  return values;
}

std::vector<Literal> run_eagerly(const Program& program, std::span<const Literal> inputs) {
  std::vector<Tensor> tensors;
  for (const Literal& input : inputs) tensors.push_back(tensor_of(input));
  std::vector<Tensor> results = replay(program, tensors);
  evaluate(results, {});
  std::vector<Literal> values;
  for (const Tensor& result : results) values.push_back(literal_of(result));
  return values;
}

bool conditions_hold(const Graph& graph, std::span<const std::int64_t> symbols) {
  for (const DimCondition& condition : graph.conditions) {
    std::int64_t left = dims::evaluate(condition.left, symbols), right = dims::evaluate(condition.right, symbols);
    if ((condition.kind == DimCondition::Kind::equal ? left == right : left < right) != condition.holds) return false;
  }
  return true;
}

// Other sizes for the same symbolic graph, if its conditions allow any: each symbol a little larger.
std::vector<std::int64_t> other_sizes(const Graph& graph) {
  for (std::int64_t more : {3, 1, 2, 7}) {
    std::vector<std::int64_t> sizes = hints(graph);
    for (std::int64_t& size : sizes) size += more;
    if (!sizes.empty() && conditions_hold(graph, sizes)) return sizes;
  }
  return {};
}

struct Prepared {
  Graph fixed, symbolic;
  std::vector<Literal> inputs;
  std::string failure;
};

Prepared prepare(const Program& program) {
  Prepared prepared;
  std::mt19937_64 random(program.seed * 77 + 1);
  for (const ProgramInput& input : program.inputs) prepared.inputs.push_back(random_input(input, random));
  prepared.fixed = trace(program, false, test::test_device());
  prepared.symbolic = trace(program, true, test::test_device());
  return prepared;
}

std::string check_one(const Program& program, const Prepared& prepared, const Executable& fixed,
                      const Executable& symbolic, Statistics& statistics) {
  Expected expected = expect(prepared.fixed, prepared.inputs, {});
  std::string failure;
  struct Case {
    const Graph& graph;
    std::span<const Literal> inputs;
    std::span<const std::int64_t> symbols;
  };
  auto attempt = [&](const char* name, const Case& it, const Expected& wanted, auto run) {
    if (!failure.empty()) return;
    try {
      const std::vector<Literal> got = run();
      failure = compare(name, wanted, got, statistics);
      if (!failure.empty())
        failure = compare(name, expect(it.graph, it.inputs, it.symbols, many_runs), got, statistics);
    } catch (const std::exception& error) {
      failure = std::string(name) + " throws: " + error.what();
    }
  };
  // On a device each kind of eager operation is a program of its own to compile.
  if (!test::on_device() || program.seed % 32 == 0)
    attempt("eager", {prepared.fixed, prepared.inputs, {}}, expected,
            [&] { return run_eagerly(program, prepared.inputs); });
  auto compiled = [&](const char* name, const Executable& executable, const Case& it, const Expected& wanted,
                      bool donate) {
    attempt(name, it, wanted, [&] { return run_plan(executable, wanted.values, it.inputs, it.symbols, donate); });
  };
  compiled("compiled", fixed, {prepared.fixed, prepared.inputs, {}}, expected, false);
  compiled("compiled, donated", fixed, {prepared.fixed, prepared.inputs, {}}, expected, true);
  // Where a size is a symbol an instruction may not apply (splitting an axis, say): another program, with its own
  // truth.
  std::vector<std::int64_t> same = hints(prepared.symbolic);
  const Case at_same{prepared.symbolic, prepared.inputs, same};
  compiled("symbolic", symbolic, at_same, expect(prepared.symbolic, prepared.inputs, same), false);
  std::vector<std::int64_t> sizes = other_sizes(prepared.symbolic);
  if (failure.empty() && !sizes.empty()) {
    Program larger = program;
    std::mt19937_64 random(program.seed * 77 + 2);
    std::vector<Literal> inputs;
    std::map<std::int64_t, std::int64_t> renamed;
    for (std::size_t s = 0; s < sizes.size(); ++s) renamed[prepared.symbolic.symbols[s].hint] = sizes[s];
    for (ProgramInput& input : larger.inputs) {
      for (std::int64_t& size : input.sizes)
        if (auto found = renamed.find(size); found != renamed.end()) size = found->second;
      inputs.push_back(random_input(input, random));
    }
    compiled("symbolic at other sizes", symbolic, {prepared.symbolic, inputs, sizes},
             expect(prepared.symbolic, inputs, sizes), true);
    ++statistics.symbolic_again;
  }
  return failure;
}

void count(const Program& program, const Prepared& prepared, Statistics& statistics) {
  ++statistics.programs;
  statistics.gradients += program.gradient;
  statistics.states += program.state;
  statistics.returning += !program.returned.empty();
  bool reduces = false, views = false;
  for (const Instruction& step : program.instructions) {
    reduces |= is_reduce(step.op);
    views |= info(step.op).kind == OpKind::view;
  }
  statistics.reductions += reduces;
  statistics.views += views;
  for (const Tensor& value : prepared.fixed.nodes) statistics.ops.insert(value.node()->op);
}

}  // namespace

std::vector<std::string> check(const std::vector<Program>& programs, Statistics* statistics, Level level) {
  Statistics own;
  if (!statistics) statistics = &own;
  std::vector<Prepared> prepared;
  std::vector<Graph> graphs;
  std::vector<std::string> failures(programs.size());
  for (const Program& program : programs) {
    prepared.push_back(prepare(program));
    // Traced anew: passes number a graph's nodes for themselves.
    graphs.push_back(trace(program, false, test::test_device()));
    graphs.push_back(trace(program, true, test::test_device()));
    count(program, prepared.back(), *statistics);
  }
  PipelineOptions options;
  options.verify = true;
  options.level = level;
  auto executables = compile_graphs(std::move(graphs), options);
  for (std::size_t i = 0; i < programs.size(); ++i)
    failures[i] = check_one(programs[i], prepared[i], *executables[2 * i], *executables[2 * i + 1], *statistics);
  return failures;
}

namespace {
bool executors_differ(const Program& program, Level level) {
  try {
    return !check({program}, nullptr, level).front().empty();
  } catch (const std::exception&) {
    return true;
  }
}

// Of how many programs one is run: devices and sanitized builds take their time.
int share() { return test::on_device() ? 10 : test::less_when_sanitized; }
}  // namespace

Statistics check_random_programs(std::uint64_t seed, int count, Level level) {
  constexpr int batch = 40;
  options().kernel_optimization = 1;  // thousands of kernels: what -O3 adds is other tests' subject
  count /= share();
  Statistics statistics;
  for (int done = 0; done < count; done += batch) {
    std::vector<Program> programs;
    for (int i = done; i < std::min(done + batch, count); ++i) {
      std::uint64_t number = seed + static_cast<std::uint64_t>(i);
      programs.push_back(make_program(number, static_cast<int>(10 + number * 7 % 51)));
    }
    std::vector<std::string> failures;
    try {
      failures = check(programs, &statistics, level);
    } catch (const std::exception&) {  // one of them breaks the compiler: find which
      for (const Program& program : programs) {
        try {
          failures.push_back(check({program}, nullptr, level).front());
        } catch (const std::exception& error) {
          failures.push_back(error.what());
        }
      }
    }
    // A seeded bug is found by one program that differs; the shortest one is of no interest.
    if (std::getenv("WEFT_SEEDED_BUG"))
      for (const std::string& failure : failures) REQUIRE_MESSAGE(failure.empty(), failure);
    for (std::size_t i = 0; i < programs.size(); ++i) {
      if (failures[i].empty()) continue;
      Program least = shrink(programs[i], [&](const Program& each) { return executors_differ(each, level); });
      std::string why;
      try {
        why = check({least}, nullptr, level).front();
      } catch (const std::exception& error) {
        why = error.what();
      }
      FAIL_CHECK("seed ", programs[i].seed, ": ", failures[i], "\nshrunk: ", why, "\n", to_text(least),
                 to_text(trace(least, false)));
    }
  }
  return statistics;
}

void check_coverage(const Statistics& s) {
  CHECK(s.symbolic_again * 10 >= s.programs * 8);
  if (share() == 1) {
    int missing = 0;
    for (int op = 0; op < op_count; ++op)
      missing += is_drawn(static_cast<Op>(op)) && !s.ops.contains(static_cast<Op>(op));
    CHECK(missing * 20 <= op_count);
    for (int part : {s.reductions, s.views, s.gradients, s.states, s.returning}) CHECK(part * 10 >= s.programs * 3);
    CHECK(s.compared > 6 * s.undecided);
  }
  MESSAGE(s.programs, " programs, ", s.ops.size(), " of ", op_count, " primitives, ", s.reductions,
          " with reductions, ", s.views, " with views, ", s.gradients, " with gradients, ", s.states, " with state, ",
          s.returning, " that return what they read too, ", s.symbolic_again, " at other sizes; ", s.compared,
          " elements compared, ", s.undecided, " undecided");
}

}  // namespace weft::testing
