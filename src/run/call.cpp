// A call. In: tensors of DLPack. Out: the kind of arguments that they fit, its plan run on their memory, results in
// memory of their own. Everything that can fail comes before the first write to an argument. A call that fits takes
// nothing from the heap: memory of results is from the free lists of Storage.
#include <algorithm>
#include <bit>
#include <cstring>

#include "base/dlpack.hpp"
#include "base/float_modes.hpp"
#include "base/per_thread.hpp"
#include "base/strided_copy.hpp"
#include "run/tensor.hpp"

namespace weft::run {

namespace {

using runtime::PackageLeaf, runtime::PackageOutput, runtime::Source;

// A tensor that the caller passes, of a dtype, rank and sizes that a kind holds. It refers to the caller's struct.
struct PassedTensor {
  const weft_tensor* given;
  DType dtype;
  std::uint8_t* first;    // null: it has no elements
  std::int64_t elements;  // how many
  bool is_plain;          // in row-major order, and aligned to the size of an element

  std::span<const std::int64_t> shape() const { return {given->shape, static_cast<std::size_t>(given->ndim)}; }
  std::size_t bytes() const { return storage_bytes(dtype, elements); }
  // In elements, an axis each; `room` holds them where the caller gives none.
  std::span<const std::int64_t> strides(std::int64_t (&room)[max_rank]) const {
    if (given->strides) return {given->strides, shape().size()};
    return row_major_strides(shape(), room);
  }
  // The bytes from the first one in memory to after the last one.
  std::pair<std::uintptr_t, std::uintptr_t> extent() const {
    const auto at = reinterpret_cast<std::uintptr_t>(first);
    if (elements == 0) return {at, at};
    std::int64_t room[max_rank];
    const std::span<const std::int64_t> steps = strides(room);
    std::int64_t low = 0, high = 1;
    for (std::size_t axis = 0; axis < steps.size(); ++axis)
      (steps[axis] < 0 ? low : high) += (given->shape[axis] - 1) * steps[axis];
    const auto element = static_cast<std::int64_t>(storage_bytes(dtype, 1));
    return {at + static_cast<std::uintptr_t>(low * element), at + static_cast<std::uintptr_t>(high * element)};
  }
};

// What the plan computes in a call.
struct Output {
  std::int64_t sizes[max_rank];
  std::size_t rank, bytes;
  std::span<const std::int64_t> shape() const { return {sizes, rank}; }
};

struct Extent {
  std::uintptr_t begin, end;
  std::size_t leaf;
};

struct EndManaged {
  void operator()(dlpack::ManagedTensor* managed) const { managed->deleter(managed); }
};

// What a call needs room for. A thread keeps the room for its next call.
struct Scratch {
  std::vector<std::uint64_t> words;  // room for Call::words_
  std::vector<PassedTensor> tensors;
  std::vector<std::int64_t> symbols;
  std::vector<Output> outputs;
  std::vector<void*> inputs, memory;   // of the plan's arguments and results
  std::vector<const void*> constants;  // those of the inputs that are weights
  std::vector<Owned> given, copies, before;
  std::vector<std::unique_ptr<dlpack::ManagedTensor, EndManaged>> exported;
  std::vector<Extent> extents;

  void clear() noexcept {
    tensors.clear(), symbols.clear(), outputs.clear(), inputs.clear(), memory.clear(), extents.clear();
    constants.clear();
    exported.clear(), given.clear(), copies.clear(), before.clear();
  }
};

class Call {
 public:
  Call(const OpenFunction& function, size_t kind, const weft_tensor* const* arguments, size_t count)
      : function_(function), arguments_(arguments, count), scratch_(per_thread<Scratch>()) {
    if (kind != WEFT_ANY_KIND && kind >= function.kinds.size())
      refuse(WEFT_BAD_CALL, "kind ", kind, " was asked for, it has ", function.kinds.size());
    choose(kind);
  }
  Call(const Call&) = delete;
  ~Call() { scratch_.clear(); }

  void run(weft_managed_tensor** results, size_t count) {
    const runtime::PackageSpecialization& held = *kind_->held;
    if (count != kind_->given.size())
      refuse(WEFT_BAD_CALL, "gives ", counted(static_cast<std::int64_t>(kind_->given.size()), "result", "results"),
             ", there is room for ", count);
    for (const PackageOutput& output : held.outputs) size_output(output);
    check_written();
    auto& [words, tensors, symbols, outputs, inputs, memory, constants, given, copies, before, exported, extents] =
        scratch_;
    for (const std::uint32_t input : held.inputs)
      if (runtime::PackageSpecialization::is_weight(input)) {
        inputs.push_back(weight(runtime::PackageSpecialization::weight_index(input)));
        constants.push_back(inputs.back());
      } else {
        inputs.push_back(pointer_to(input));
      }
    for (const Source& source : kind_->given) given.push_back(allocate_bytes(size_of(source)));
    for (std::size_t i = 0; i < outputs.size(); ++i) memory.push_back(memory_of_output(i));
    for (std::size_t i = 0; i < given.size(); ++i) {
      retain(given[i].get());
      exported.emplace_back(exported_of(kind_->given[i], given[i].get()));
    }
    // What is an argument as it was before.
    for (std::size_t i = 0; i < given.size(); ++i)
      if (kind_->given[i].kind == Source::Kind::argument) copy_argument(given[i]->data, kind_->given[i].index);
    for (const runtime::StateTensor& state : held.states) {
      const bool is_argument = state.source.kind == Source::Kind::argument;
      before.push_back(is_argument ? allocate_bytes(size_of(state.source)) : nullptr);
      if (is_argument) copy_argument(before.back()->data, state.source.index);
    }
    {
      const DefaultFloatModes modes;
      runtime::run(held.plan, inputs, memory,
                   std::span(symbols).first(static_cast<std::size_t>(held.plan.symbol_count)), nullptr, {}, false,
                   {constants, hold_weight, this});
    }
    // From here on nothing fails.
    for (std::size_t i = 0; i < given.size(); ++i)
      if (kind_->given[i].kind == Source::Kind::computed)
        copy(given[i]->data, memory[kind_->given[i].index], size_of(kind_->given[i]));
    for (std::size_t i = 0; i < held.states.size(); ++i) {
      const auto& [leaf, source] = held.states[i];
      copy(passed(leaf).first, before[i] ? before[i]->data : memory[source.index], size_of(source));
    }
    for (std::size_t i = 0; i < given.size(); ++i)
      results[i] = reinterpret_cast<weft_managed_tensor*>(exported[i].release());
  }

 private:
  template <class... Parts>
  [[noreturn]] void refuse(weft_status status, const Parts&... parts) const {
    run::refuse(status, "[", function_.name, "] ", parts...);
  }

  // ---- arguments

  // Writes the words that guards compare, and what the tensors are but for their dtypes. False where some tensor is
  // none that a package of the host can take: it then fits no kind. Nothing that is computed of the sizes overflows
  // afterwards.
  bool read_tensors() {
    scratch_.tensors.clear();  // a call that fitted nothing leaves its own
    const std::size_t most_words = arguments_.size() * (max_rank + 1);
    if (scratch_.words.size() < most_words) scratch_.words.resize(most_words);
    std::uint64_t* next = scratch_.words.data();
    for (const weft_tensor* const given : arguments_) {
      if (!given || given->ndim < 0 || given->ndim > max_rank || !is_on_host(given->device) ||
          (given->ndim > 0 && !given->shape))
        return false;
      *next++ = tensor_word(given->dtype, given->ndim);
      std::int64_t elements = 1;  // a size of 0 counts as 1 at first: strides, which a result has, must not overflow
      bool is_plain = true, is_empty = false;
      for (int axis = given->ndim; axis-- > 0;) {
        const std::int64_t size = given->shape[axis];
        next[axis] = static_cast<std::uint64_t>(size);
        if (given->strides && size != 1 && given->strides[axis] != elements) is_plain = false;
        is_empty = is_empty || size == 0;
        if (size < 0 || __builtin_mul_overflow(elements, std::max<std::int64_t>(size, 1), &elements) ||
            elements >= most_bytes / 8)
          return false;
      }
      next += given->ndim;
      if (is_empty) elements = 0;
      if (elements > 0 && !given->data) return false;
      auto* const first = elements == 0 ? nullptr : static_cast<std::uint8_t*>(given->data) + given->byte_offset;
      scratch_.tensors.push_back({given, {}, first, elements, is_plain || elements == 0});
    }
    words_ = {scratch_.words.data(), next};
    return true;
  }
  bool fits(const Kind& kind) const { return kind.refusal.empty() && kind.guards.hold(words_); }

  // What the kind that fits says of the tensors: their dtypes, and the values of symbols.
  void take_kind() {
    for (std::size_t i = 0; i < arguments_.size(); ++i) {
      PassedTensor& tensor = scratch_.tensors[i];
      tensor.dtype = kind_->held->arguments[kind_->passed[i]].dtype;
      if (reinterpret_cast<std::uintptr_t>(tensor.first) % storage_bytes(tensor.dtype, 1) != 0) tensor.is_plain = false;
    }
    for (std::size_t symbol = 0; symbol < kind_->guards.symbols.size(); ++symbol)
      scratch_.symbols.push_back(kind_->guards.symbol_value(symbol, words_));
  }
  std::int64_t value_of(Dim size) const {
    return size.is_constant() ? size.constant() : dims::evaluate(size, scratch_.symbols);
  }

  // Why the tensors, of these dtypes, do not fit. `leaf`: the first that does not.
  std::string why_not(const Kind& kind, const std::vector<DType>& dtypes, std::size_t& leaf) const {
    leaf = 0;
    if (!kind.refusal.empty()) return kind.refusal;
    if (arguments_.size() != kind.passed.size())
      return concat_text("the call passes ", counted(static_cast<std::int64_t>(arguments_.size()), "tensor", "tensors"),
                         ", the package holds ", kind.passed.size());
    std::vector<PackageLeaf> given;
    std::size_t next = 0;
    for (const PackageLeaf& held : kind.held->arguments) {
      PackageLeaf& is = given.emplace_back(held);  // what is not passed is as it was
      if (held.kind != PackageLeaf::Kind::tensor || !held.defined) continue;
      is.device = Device::cpu();
      is.dtype = dtypes[next];
      is.sizes.assign(arguments_[next]->shape, arguments_[next]->shape + arguments_[next]->ndim);
      ++next;
    }
    std::string why = mismatch(*kind.held, given, leaf);
    WEFT_CHECK(!why.empty(), "the guards of a package refuse a call that fits");
    return why;
  }

  void choose(size_t asked) {
    const bool are_tensors = read_tensors();
    for (const Kind& kind : function_.kinds) {
      if (!are_tensors) break;
      const auto number = static_cast<size_t>(&kind - function_.kinds.data());
      if (asked != WEFT_ANY_KIND && asked != number) continue;
      if (kind_ && kind.fixed == kind_->fixed) continue;  // the first of those that are alike
      if (!fits(kind)) continue;
      if (kind_)
        refuse(WEFT_MISMATCH, "fits kinds ", kind_ - function_.kinds.data(), " and ", number,
               " of its arguments, which differ in what is no tensor: ask for one of them");
      kind_ = &kind;
    }
    if (!kind_) refuse_tensors(asked);
    take_kind();
  }
  [[noreturn]] void refuse_tensors(size_t asked) const {
    std::vector<DType> dtypes;
    for (std::size_t i = 0; i < arguments_.size(); ++i)
      dtypes.push_back(check_tensor(arguments_[i], concat_text("[", function_.name, "] tensor ", i, " of the call")));
    runtime::NearestMismatch nearest;
    for (const Kind& kind : function_.kinds) {
      if (asked != WEFT_ANY_KIND && &kind != &function_.kinds[asked]) continue;
      std::size_t leaf = 0;
      std::string why = why_not(kind, dtypes, leaf);
      nearest.add(std::move(why), leaf);
    }
    refuse(WEFT_MISMATCH, nearest.text());
  }

  const PassedTensor& passed(std::size_t leaf) const { return scratch_.tensors[kind_->tensor_of[leaf]]; }

  // Memory that is written keeps its size, is in order, and is nobody else's.
  void check_written() {
    const runtime::PackageSpecialization& held = *kind_->held;
    if (held.states.empty()) return;
    for (const auto& [leaf, source] : held.states) {
      const PassedTensor& tensor = passed(leaf);
      const std::string& name = held.arguments[leaf].name;
      if (!std::ranges::equal(tensor.shape(), shape_of(source)))
        refuse(WEFT_UNSUPPORTED, "gives ", name, " other sizes, and a program in C passes memory that stays");
      if (!tensor.is_plain)
        refuse(WEFT_MISMATCH, name, " is written where it lies, so it must be in row-major order and aligned");
    }
    std::vector<Extent>& extents = scratch_.extents;
    for (const std::size_t leaf : kind_->passed)
      if (const auto [begin, end] = passed(leaf).extent(); begin != end) extents.push_back({begin, end, leaf});
    std::ranges::sort(extents, {}, &Extent::begin);
    const Extent *last = nullptr, *last_written = nullptr;  // those that end last
    for (const Extent& each : extents) {
      const bool is_written = kind_->is_written[each.leaf];
      const Extent* const before = is_written ? last : last_written;
      if (before && before->end > each.begin)
        refuse(WEFT_MISMATCH, held.arguments[before->leaf].name, " and ", held.arguments[each.leaf].name,
               " share memory, and the function changes ", held.arguments[is_written ? each.leaf : before->leaf].name);
      if (!last || each.end > last->end) last = &each;
      if (is_written && (!last_written || each.end > last_written->end)) last_written = &each;
    }
  }

  void copy_argument(void* to, std::size_t leaf) {
    const PassedTensor& tensor = passed(leaf);
    std::int64_t room[max_rank];
    if (tensor.first)
      copy_to_row_major(static_cast<std::uint8_t*>(to), tensor.first, tensor.shape(), tensor.strides(room),
                        storage_bytes(tensor.dtype, 1));
  }

  void* pointer_to(std::size_t leaf) {
    const PassedTensor& tensor = passed(leaf);
    if (tensor.is_plain && tensor.first) return tensor.first;
    void* const copy = room_of(tensor.bytes());
    copy_argument(copy, leaf);
    return copy;
  }
  // Steps only read it.
  void* weight(std::size_t number) {
    if (!weights_) weights_ = function_.package->weights.load();
    return const_cast<void*>(weights_->at[number]);
  }
  // What keeps the memory of a weight as it is: the bytes of the file, or what has replaced them.
  static std::shared_ptr<const void> hold_weight(const void* context, std::size_t constant) {
    const Call& call = *static_cast<const Call*>(context);
    const runtime::PackageSpecialization& held = *call.kind_->held;
    const std::uint32_t input = held.inputs[static_cast<std::size_t>(held.plan.constant_arguments[constant])];
    const auto& replaced = call.weights_->replaced[runtime::PackageSpecialization::weight_index(input)];
    if (replaced) return replaced;
    return call.function_.package->bytes;
  }
  void* room_of(std::size_t bytes) {
    scratch_.copies.push_back(allocate_bytes(bytes));
    return scratch_.copies.back()->data;
  }

  // ---- results

  void size_output(const PackageOutput& output) {
    Output& made = scratch_.outputs.emplace_back();
    made.rank = output.sizes.size();
    for (std::size_t axis = 0; axis < made.rank; ++axis) made.sizes[axis] = value_of(output.sizes[axis]);
    const std::int64_t bytes = bytes_of(output.dtype, made.shape());
    if (bytes < 0) refuse(WEFT_MISMATCH, "would give a result with too many elements, or of a negative size");
    made.bytes = static_cast<std::size_t>(bytes);
  }
  bool is_output(const Source& source) const { return source.kind == Source::Kind::computed; }
  std::span<const std::int64_t> shape_of(const Source& source) const {
    return is_output(source) ? scratch_.outputs[source.index].shape() : passed(source.index).shape();
  }
  std::size_t size_of(const Source& source) const {
    return is_output(source) ? scratch_.outputs[source.index].bytes : passed(source.index).bytes();
  }
  void* memory_of_output(std::size_t number) {
    if (const std::size_t result = kind_->result_of[number]; result != Kind::none) return scratch_.given[result]->data;
    if (const std::uint32_t leaf = kind_->in_place[number]; leaf != PackageOutput::no_leaf && passed(leaf).first)
      return passed(leaf).first;
    return room_of(scratch_.outputs[number].bytes);
  }
  dlpack::ManagedTensor* exported_of(const Source& source, Storage* storage) const {
    std::int64_t room[max_rank];
    const std::span<const std::int64_t> sizes = shape_of(source);
    const DType dtype = is_output(source) ? kind_->held->outputs[source.index].dtype : passed(source.index).dtype;
    return export_memory<dlpack::ManagedTensor>(storage, storage->data, dtype, sizes, row_major_strides(sizes, room));
  }
  static void copy(void* to, const void* from, std::size_t bytes) {
    if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
  }

  const OpenFunction& function_;
  const std::span<const weft_tensor* const> arguments_;
  Scratch& scratch_;
  std::span<const std::uint64_t> words_;  // of the tensors, as Kind::guards compares them
  const Kind* kind_ = nullptr;
  std::shared_ptr<const Weights> weights_;  // those of this call, from the first one that it reads on
};

}  // namespace

}  // namespace weft::run

extern "C" weft_status weft_function_call(const weft_function* function, size_t kind,
                                          const weft_tensor* const* arguments, size_t argument_count,
                                          weft_managed_tensor** results, size_t result_count) {
  using namespace weft::run;
  return guarded([&] {
    if (results) std::fill_n(results, result_count, nullptr);
    const auto state = Handles<weft_function>::state_of("weft_function_call", function);
    if (argument_count > 0) require("weft_function_call", "arguments", arguments);
    if (result_count > 0) require("weft_function_call", "results", results);
    Call(*state, kind, arguments, argument_count).run(results, result_count);
  });
}
