// Loading. In: the bytes of a package; a function's types. Out: a compiled function whose specializations come from the
// file: a call finds one by its guards and runs the plan, as any call does (trace/call.cpp), and is refused where it
// finds none.
#include <algorithm>
#include <cstring>
#include <mutex>
#include <set>

#include "base/fail.hpp"
#include "base/fork.hpp"
#include "base/shared_value.hpp"
#include "io/file_values.hpp"
#include "package/leaves.hpp"
#include "pipeline.hpp"
#include "record/record.hpp"
#include "runtime/cuda/package_code.hpp"
#include "runtime/cuda/stored_steps.hpp"
#include "runtime/steps.hpp"
#include "trace/call_context.hpp"
#include "trace/kernel_job.hpp"
#include "trace/names.hpp"

namespace weft {

namespace detail {

// A weight of the file, where a plan reads it.
struct PlacedWeight {
  std::size_t number;
  bool on_device;
  friend auto operator<=>(const PlacedWeight&, const PlacedWeight&) = default;
};
// The weights that an entry's plans read.
struct EntryWeights {
  std::vector<PlacedWeight> placed;  // ascending
  SharedValue<const std::vector<Tensor>> now;
};

struct LoadedPackage {
  std::string name;                         // of the file, without its folders
  std::shared_ptr<const MappedFile> bytes;  // where the weights lie
  runtime::PackageFile file;
  std::vector<std::shared_ptr<EntryWeights>> weights;  // by entry
  RecursiveMutex updating;
  std::vector<std::vector<std::shared_ptr<const Executable>>> executables;  // by entry: of each specialization
};

namespace {

Shape shape_of(const std::vector<Dim>& sizes) { return {sizes.data(), static_cast<int>(sizes.size())}; }

// The words of a call that fits, and which of them count.
Guards guards_of(const runtime::PackageSpecialization& from) {
  Guards guards;
  for (const auto& [lower, upper] : from.symbols) guards.symbols.push_back({{}, lower, upper});
  // Passes and autocast of this process make nothing of what is compiled already. The types are the function's, as its
  // own type says, though a shared object that calls it may have the signature at another address.
  guards.add(0, 0);
  for (const runtime::PackageLeaf& leaf : from.arguments) {
    using Kind = runtime::PackageLeaf::Kind;
    switch (leaf.kind) {
      case Kind::count: guards.add(leaf.count); break;
      case Kind::number:
      case Kind::list: {
        if (leaf.kind == Kind::list) guards.add(leaf.bytes.size());
        for (std::size_t at = 0; at < leaf.bytes.size(); at += sizeof(std::uint64_t)) {
          std::uint64_t word = 0;
          std::memcpy(&word, leaf.bytes.data() + at, std::min(sizeof word, leaf.bytes.size() - at));
          guards.add(word);
        }
        break;
      }
      case Kind::tensor: {
        if (!leaf.defined) {
          guards.add(frozen_bit(leaf.frozen));
          break;
        }
        Type type{leaf.dtype, leaf.weak, leaf.device, shape_of(leaf.sizes)};
        guards.add(meta_word(type, leaf.frozen));
        for (const Dim size : leaf.sizes) guards.add_size(size);
      }
    }
  }
  for (const runtime::PackageCondition& each : from.conditions)
    guards.conditions.push_back({each.kind, each.left, each.right, each.holds});
  return guards;
}

// What the plan's input is; `input` is a weight.
PlacedWeight placed_weight(const runtime::PackageSpecialization& from, const runtime::Plan& plan, std::size_t input) {
  const auto is_it = [&](const runtime::PlanBuffer& buffer) {
    return buffer.kind == runtime::PlanBuffer::Kind::argument && static_cast<std::size_t>(buffer.index) == input;
  };
  const auto buffer = std::ranges::find_if(plan.buffers, is_it);
  const bool on_device = plan.device.type != Device::Type::cpu && buffer != plan.buffers.end() && !buffer->host;
  return {runtime::PackageSpecialization::weight_index(from.inputs[input]), on_device};
}

// What a package holds, as a call finds it. Memory of what the program takes by const reference holds no result.
std::shared_ptr<Specialization> specialization_of(const runtime::PackageSpecialization& from,
                                                  const EntryWeights& weights,
                                                  std::shared_ptr<const Executable> executable,
                                                  const Access* accesses) {
  auto made = std::make_shared<Specialization>(new_id());
  made->guards = guards_of(from);
  made->symbolic = !from.symbols.empty();
  Segment& segment = made->segments.emplace_back();
  made->root.segment = &segment;
  TraceResult& traced = segment.traced;
  for (std::size_t i = 0; i < from.inputs.size(); ++i) {
    const std::uint32_t input = from.inputs[i];
    if (!runtime::PackageSpecialization::is_weight(input)) {
      traced.inputs.push_back(input);
      continue;
    }
    const auto found = std::ranges::find(weights.placed, placed_weight(from, executable->plan, i));
    traced.inputs.push_back(kept_leaf(static_cast<std::size_t>(found - weights.placed.begin())));
  }
  traced.results = from.results;
  traced.states = from.states;
  traced.numbers = from.numbers;
  traced.generator = from.generator;
  segment.draws = traced.generator.kind != Source::Kind::undefined ||
                  std::ranges::find(from.inputs, generator_leaf) != from.inputs.end();
  auto kernels = std::make_unique<Kernels>();
  kernels->executable = std::move(executable);
  for (const runtime::PackageOutput& each : from.outputs) {
    segment.output_types.push_back({each.dtype, each.weak, each.device, shape_of(each.sizes)});
    const bool may_give = each.donor != no_leaf && accesses[from.arguments[each.donor].argument] != Access::input;
    kernels->donors.push_back(may_give ? each.donor : no_leaf);
  }
  kernels->checks_wait = checks_may_wait(traced, *kernels);
  segment.made = std::move(kernels);
  segment.kernels.store(segment.made.get(), std::memory_order_release);
  return made;
}

// Whether the leaves are those of values of a signature's types: what a call's words are compared with word by word.
class LeafOrder {
 public:
  explicit LeafOrder(const std::vector<runtime::PackageLeaf>& leaves)
      : next_(leaves.data()), end_(leaves.data() + leaves.size()) {}
  bool is_of(const CallSignature& signature) {
    for (argument_ = 0; argument_ < signature.argument_count; ++argument_)
      if (!take(*signature.arguments[argument_])) return false;
    return next_ == end_;
  }

 private:
  using Kind = runtime::PackageLeaf::Kind;
  const runtime::PackageLeaf* leaf(Kind kind) {
    return next_ != end_ && next_->kind == kind && next_->argument == argument_ ? next_++ : nullptr;
  }
  bool take_children(const TypeDescription& type) {
    for (int i = 0; i < type.child_count; ++i)
      if (!take(*type.children[i])) return false;
    return true;
  }
  bool take_elements(const TypeDescription& type, std::uint64_t count) {
    if (type.packed) return leaf(Kind::list) != nullptr;
    for (; count > 0; --count) {
      const runtime::PackageLeaf* const before = next_;
      if (!take_children(type)) return false;
      if (next_ == before) break;  // of elements that have no leaves
    }
    return true;
  }
  bool take(const TypeDescription& type) {
    switch (type.kind) {
      case TypeKind::tensor:
      case TypeKind::param:
      case TypeKind::buffer:
      case TypeKind::scalar:
      case TypeKind::index: return leaf(Kind::tensor) != nullptr;
      case TypeKind::number: return leaf(Kind::number) != nullptr;
      case TypeKind::text: return leaf(Kind::list) != nullptr;
      case TypeKind::list: {
        const runtime::PackageLeaf* const length = leaf(Kind::count);
        return length && take_elements(type, length->count);
      }
      case TypeKind::array: return take_elements(type, type.repeat);
      case TypeKind::tuple:
      case TypeKind::structure:
      case TypeKind::empty: return take_children(type);
      case TypeKind::map: {
        const runtime::PackageLeaf* const length = leaf(Kind::count);
        for (std::uint64_t left = length ? length->count : 0; left > 0; --left)
          if (!take_children(type)) return false;
        return length != nullptr;
      }
      case TypeKind::optional:
      case TypeKind::pointer: {
        const runtime::PackageLeaf* const presence = leaf(Kind::count);
        return presence && (presence->count == 0 || take_children(type));
      }
      case TypeKind::variant: {
        const runtime::PackageLeaf* const alternative = leaf(Kind::count);
        return alternative && alternative->count < static_cast<std::uint64_t>(type.child_count) &&
               take(*type.children[alternative->count]);
      }
      case TypeKind::polymorphic:
      case TypeKind::unsupported: break;
    }
    return false;
  }

  const runtime::PackageLeaf *next_, *end_;
  int argument_ = 0;
};

// The generator's next state is one.
bool gives_generator(const runtime::PackageSpecialization& from) {
  using Kind = Source::Kind;
  const Source& source = from.generator;
  const auto is_state = [](DType dtype, const std::vector<Dim>& sizes) {
    return dtype == DType::i64 && sizes.size() == 1 && sizes[0].same(Dim(2));
  };
  if (source.kind == Kind::undefined) return true;
  if (source.kind == Kind::computed)
    return is_state(from.outputs[source.index].dtype, from.outputs[source.index].sizes);
  return is_state(from.arguments[source.index].dtype, from.arguments[source.index].sizes);
}

// Weights of the host where plans read them: on the device once, whichever functions read one.
struct WeightPlacement {
  Loc loc;
  std::map<std::size_t, Tensor> on_device = {};  // by number

  Tensor put(const Tensor& value, const PlacedWeight& where) {
    if (!where.on_device) return value;
    Tensor& there = on_device[where.number];
    if (!there.defined()) (there = to(value, Device::cuda(), loc)).eval(loc);
    return there;
  }
};

[[noreturn]] void refuse_derivative(const Function& function, Loc loc) {
  fail(title(function), loc,
       "is called where an argument is differentiated, and a package holds no derivative: differentiate in the "
       "function that is packaged");
}

// Why nothing that the package holds fits: of several kinds of arguments, what the nearest one differs in.
void refuse_call(const runtime::PackageEntry& entry, const CallContext& call) {
  if (call.scratch.differentiated) refuse_derivative(call.function, call.loc);
  std::vector<runtime::PackageLeaf> given;
  for (const Leaf& leaf : call.scratch.arguments.leaves) given.push_back(package_leaf(leaf));
  runtime::NearestMismatch nearest;
  for (const runtime::PackageSpecialization& each : entry.specializations) {
    std::size_t leaf = 0;
    std::string why = mismatch(each, given, leaf);
    WEFT_CHECK(!why.empty(), "the guards of a package refuse a call that fits");
    nearest.add(std::move(why), leaf);
  }
  fail(title(call.function), call.loc, nearest.text());
}

}  // namespace

const runtime::PackageLeaf& ResultReader::take() {
  if (at_end()) throw runtime::Malformed();
  return *next_++;
}
bool ResultReader::tensor() {
  const runtime::PackageLeaf& leaf = take();
  if (leaf.kind != runtime::PackageLeaf::Kind::tensor) throw runtime::Malformed();
  return leaf.frozen;
}
void ResultReader::numbers(void* to, std::size_t bytes) {
  const runtime::PackageLeaf& leaf = take();
  if (leaf.bytes.size() != bytes) throw runtime::Malformed();
  if (bytes) std::memcpy(to, leaf.bytes.data(), bytes);
}
std::string ResultReader::text() { return take().bytes; }
bool ResultReader::presence() { return take().count != 0; }
std::size_t ResultReader::length(std::size_t packed) {
  const std::uint64_t count = take().count;
  const std::size_t most = packed == 0 ? static_cast<std::size_t>(end_ - next_)
                           : at_end()  ? 0
                                       : next_->bytes.size() / packed;
  if (count > most) throw runtime::Malformed();
  return static_cast<std::size_t>(count);
}

FunctionHandle package_function(const std::shared_ptr<const LoadedPackage>& package, const std::string& name,
                                const CallSignature& signature, const TypeLines& types, const Access* accesses,
                                MakeResult make, std::shared_ptr<const EntryWeights>& weights, Loc loc) {
  const std::string whole = concat_text(name, " of ", package->name);
  const auto& entries = package->file.entries;
  const auto entry = std::ranges::find(entries, name, &runtime::PackageEntry::name);
  if (entry == entries.end()) {
    std::vector<std::string> names;
    for (const runtime::PackageEntry& each : entries) names.push_back(each.name);
    fail("load_package", loc, package->name, " has no function \"", name, "\"; it has ",
         names.empty() ? "none" : few_of(names));
  }
  if (entry->types != types.lines)
    fail("load_package", loc, whole, " has other types than it is asked for by: ",
         first_difference(entry->types, types.lines, "the package", "the program"));
  const auto require_written = [&](const runtime::PackageLeaf& leaf) {
    if (accesses[leaf.argument] != Access::state)
      fail("load_package", loc, whole, " changes ", leaf.name, ": take argument ", leaf.argument,
           " by a reference that is not const");
  };
  CompileOptions options;
  options.check = Check::never;
  options.cache_size = static_cast<int>(std::max<std::size_t>(entry->specializations.size(), 1));
  FunctionHandle handle(make_function(options, loc));
  Function& function = *handle.get();
  function.name = whole;
  function.refuse = [package, &entry = *entry](const CallContext& call) { refuse_call(entry, call); };
  const std::shared_ptr<EntryWeights>& own = package->weights[static_cast<std::size_t>(entry - entries.begin())];
  if (!own->placed.empty()) weights = own;
  const auto& executables = package->executables[static_cast<std::size_t>(entry - entries.begin())];
  for (std::size_t i = 0; i < entry->specializations.size(); ++i) {
    const runtime::PackageSpecialization& each = entry->specializations[i];
    if (!LeafOrder(each.arguments).is_of(signature) || !gives_generator(each))
      fail("load_package", loc, whole, " is damaged: its arguments are not of its types");
    for (const StateTensor& state : each.states) require_written(each.arguments[state.leaf]);
    for (const StateNumbers& numbers : each.numbers) require_written(each.arguments[numbers.leaf]);
    auto made = specialization_of(each, *own, executables[i], accesses);
    try {
      ResultReader from(each.result.data(), each.result.data() + each.result.size());
      if (make) made->segments.front().traced.prototype = make(from);
      if (!from.at_end()) throw runtime::Malformed();
    } catch (const runtime::Malformed&) {
      fail("load_package", loc, whole, " is damaged: its result is not of its types");
    }
    function.add(std::move(made));
  }
  return handle;
}

void begin_package_call(Call& call, const Function& function, const EntryWeights* weights, Loc loc) {
  if (recorder().trace())
    fail(title(function), loc,
         "is called inside a compiled function, whose trace can't see into a package: call it "
         "outside of it");
  if (!call.begin()) refuse_derivative(function, loc);
  if (!weights) return;
  const std::shared_ptr<const std::vector<Tensor>> now = weights->now.load();
  innermost_scratch().kept.assign(now->begin(), now->end());
}

}  // namespace detail

std::vector<std::string> Package::names() const {
  std::vector<std::string> names;
  for (const runtime::PackageEntry& entry : state_->file.entries) names.push_back(entry.name);
  return names;
}
std::string Package::describe() const { return to_text(state_->file); }

std::vector<std::string> Package::weights() const {
  std::vector<std::string> names;
  for (const runtime::PackageWeight& weight : state_->file.weights) names.push_back(weight.name);
  return names;
}

void Package::update_constants(const std::map<std::string, Tensor>& values, Loc loc) {
  if (recorder().trace())
    fail("update_constants", loc, "is called inside a compiled function, whose tensors have no values yet");
  const std::vector<runtime::PackageWeight>& weights = state_->file.weights;
  std::map<std::size_t, Tensor> given;  // by number, on the host
  for (const auto& [name, value] : values) {
    const auto found = std::ranges::find(weights, name, &runtime::PackageWeight::name);
    if (found == weights.end()) fail("update_constants", loc, state_->name, " holds no weight \"", name, "\"");
    std::vector<std::int64_t> sizes;
    if (value.defined())
      for (const Dim size : type_of(value).shape) sizes.push_back(size.constant());
    if (!value.defined() || type_of(value).dtype != found->dtype || sizes != found->sizes)
      fail("update_constants", loc, name, " is ",
           value.defined() ? runtime::tensor_text(type_of(value).dtype, {sizes.begin(), sizes.end()}) : "undefined",
           ", ", state_->name, " holds ",
           runtime::tensor_text(found->dtype, {found->sizes.begin(), found->sizes.end()}));
    const Tensor here = to(value, Device::cpu(), loc);
    here.eval(loc);
    given[static_cast<std::size_t>(found - weights.begin())] = here;
  }
  const std::lock_guard lock(state_->updating);
  detail::WeightPlacement placement{loc};
  std::vector<std::shared_ptr<const std::vector<Tensor>>> all;  // by entry; stored when nothing can fail any more
  for (const std::shared_ptr<detail::EntryWeights>& entry : state_->weights) {
    auto next = std::make_shared<std::vector<Tensor>>(*entry->now.load());
    for (std::size_t i = 0; i < next->size(); ++i)
      if (const auto found = given.find(entry->placed[i].number); found != given.end())
        (*next)[i] = placement.put(found->second, entry->placed[i]);
    all.push_back(std::move(next));
  }
  for (std::size_t i = 0; i < all.size(); ++i) state_->weights[i]->now.exchange(std::move(all[i]));
}

namespace {

// Of the host, or of a device.
std::shared_ptr<const runtime::Preparable> read_step(const std::string& name, runtime::FieldReader& from) {
  auto step = runtime::read_step(name, from);
  return step ? step : runtime::cuda::read_step(name, from);
}

// `runs`: its plans are made ready.
runtime::PackageFile file_at(const char* function, const std::string& path, const LoadOptions& options, Loc loc,
                             bool runs, std::shared_ptr<const MappedFile>& file) {
  file = options.reader ? MappedFile::of(options.reader(path))
                        : MappedFile::open(function, path.c_str(), loc,
                                           options.map_weights ? runtime::package_head : MappedFile::everything);
  try {
    runtime::PackageFile made = runtime::parse_package(file->text(), read_step);
    if (runs) runtime::prepare(made, options.pack_weights, &runtime::cuda::package_device());
    if (options.check_weights)
      if (const std::string name = damaged_weight(made); !name.empty())
        fail(function, loc, path, " is damaged: the bytes of ", name, " are not those that were written");
    return made;
  } catch (const runtime::PackageRefusal& refusal) {
    fail(function, loc, path, " ", refusal.why);
  }
}

[[noreturn]] void fail_memory(const char* function, const std::string& path, Loc loc) {
  throw OutOfMemory(error_text(function, loc, path + " can't be read: memory has ended").c_str());
}

}  // namespace

std::string describe_package(const std::string& path, const LoadOptions& options, Loc loc) try {
  std::shared_ptr<const MappedFile> file;
  const runtime::PackageFile made = file_at("describe_package", path, options, loc, false, file);
  return origin_text(made) + "\n" + to_text(made);
} catch (const std::bad_alloc&) {
  fail_memory("describe_package", path, loc);
}

Package load_package(const std::string& path, const LoadOptions& options, Loc loc) try {
  std::shared_ptr<const MappedFile> file;
  auto state = std::make_shared<detail::LoadedPackage>();
  state->name = path.substr(path.rfind('/') + 1);
  state->file = file_at("load_package", path, options, loc, true, file);
  std::vector<Tensor> weights;
  for (const runtime::PackageWeight& weight : state->file.weights) {
    Type type{weight.dtype};
    for (const std::int64_t size : weight.sizes) type.shape.push_back(size);
    weights.push_back(io::tensor_over(file, reinterpret_cast<const std::uint8_t*>(weight.bytes.data()), type, loc));
  }
  if (!weights.empty()) state->bytes = file;
  detail::WeightPlacement placement{loc};
  for (runtime::PackageEntry& entry : state->file.entries) {
    const auto own = state->weights.emplace_back(std::make_shared<detail::EntryWeights>());
    std::set<detail::PlacedWeight> placed;
    for (const runtime::PackageSpecialization& each : entry.specializations)
      for (std::size_t i = 0; i < each.inputs.size(); ++i)
        if (runtime::PackageSpecialization::is_weight(each.inputs[i]))
          placed.insert(detail::placed_weight(each, each.plan, i));
    own->placed.assign(placed.begin(), placed.end());
    auto values = std::make_shared<std::vector<Tensor>>();
    for (const detail::PlacedWeight& each : placed) values->push_back(placement.put(weights[each.number], each));
    own->now.exchange(std::move(values));
    auto& list = state->executables.emplace_back();
    for (runtime::PackageSpecialization& each : entry.specializations) {
      auto executable = std::make_shared<Executable>();
      executable->plan = std::move(each.plan);
      list.push_back(std::move(executable));
    }
  }
  return Package(std::move(state));
} catch (const std::bad_alloc&) {
  fail_memory("load_package", path, loc);
}

}  // namespace weft
