// A call. In: tensors of DLPack. Out: the kind of arguments that they fit, its plan run on their memory, results in
// memory of their own. Everything that can fail comes before the first write to an argument.
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "base/dlpack.hpp"
#include "base/float_modes.hpp"
#include "base/strided_copy.hpp"
#include "run/state.hpp"

static_assert(sizeof(weft_tensor) == sizeof(weft::dlpack::View) &&
              sizeof(weft_device) == sizeof(weft::dlpack::Device) &&
              offsetof(weft_tensor, device) == offsetof(weft::dlpack::View, device) &&
              offsetof(weft_tensor, ndim) == offsetof(weft::dlpack::View, rank) &&
              offsetof(weft_tensor, dtype) == offsetof(weft::dlpack::View, dtype) &&
              offsetof(weft_tensor, shape) == offsetof(weft::dlpack::View, shape) &&
              offsetof(weft_tensor, strides) == offsetof(weft::dlpack::View, strides) &&
              offsetof(weft_tensor, byte_offset) == offsetof(weft::dlpack::View, byte_offset));
static_assert(sizeof(weft_managed_tensor) == sizeof(weft::dlpack::ManagedTensor) &&
              offsetof(weft_managed_tensor, deleter) == offsetof(weft::dlpack::ManagedTensor, deleter));

namespace weft::run {

namespace {

using runtime::PackageLeaf, runtime::PackageOutput, runtime::PackageSource;

constexpr std::int64_t most_bytes = std::int64_t{1} << 62;

struct Release {
  void operator()(Storage* storage) const { release(storage); }
};
using Owned = std::unique_ptr<Storage, Release>;
Owned allocate_bytes(std::size_t bytes) { return Owned(allocate(Device::cpu(), std::max<std::size_t>(bytes, 1))); }

// The bytes of row-major elements; below 0: too many.
std::int64_t bytes_of(DType dtype, std::span<const std::int64_t> sizes) {
  std::int64_t count = 1;
  for (const std::int64_t size : sizes)
    if (size < 0 || __builtin_mul_overflow(count, std::max<std::int64_t>(size, 1), &count) || count >= most_bytes / 8)
      return -1;
  return std::ranges::count(sizes, 0) > 0 ? 0 : static_cast<std::int64_t>(storage_bytes(dtype, count));
}

// A tensor that the caller passes.
struct PassedTensor {
  DType dtype = DType::f32;
  Device device;
  std::size_t rank = 0;
  std::int64_t sizes[max_rank] = {}, strides[max_rank] = {};
  std::uint8_t* first = nullptr;
  std::int64_t bytes = 0;
  bool is_plain = true;  // in row-major order, and aligned to the size of an element

  std::span<const std::int64_t> shape() const { return {sizes, rank}; }
  // The bytes from the first one in memory to after the last one.
  std::pair<std::uintptr_t, std::uintptr_t> extent() const {
    const auto at = reinterpret_cast<std::uintptr_t>(first);
    if (bytes == 0) return {at, at};
    std::int64_t low = 0, high = 1;
    for (std::size_t axis = 0; axis < rank; ++axis)
      (strides[axis] < 0 ? low : high) += (sizes[axis] - 1) * strides[axis];
    const auto element = static_cast<std::int64_t>(storage_bytes(dtype, 1));
    return {at + static_cast<std::uintptr_t>(low * element), at + static_cast<std::uintptr_t>(high * element)};
  }
};

class Call {
 public:
  Call(const FunctionState& function, size_t kind, const weft_tensor* const* arguments, size_t count)
      : function_(function) {
    if (kind != WEFT_ANY_KIND && kind >= function.kinds.size())
      refuse(WEFT_BAD_CALL, "kind ", kind, " was asked for, it has ", function.kinds.size());
    for (std::size_t i = 0; i < count; ++i) read(i, arguments[i]);
    choose(kind);
  }

  void run(weft_managed_tensor** results, size_t count) {
    const runtime::PackageSpecialization& held = *kind_->held;
    if (count != kind_->given.size())
      refuse(WEFT_BAD_CALL, "gives ", counted(static_cast<std::int64_t>(kind_->given.size()), "result", "results"),
             ", there is room for ", count);
    read_symbols();
    for (std::size_t i = 0; i < held.outputs.size(); ++i) size_output(i);
    check_written();
    std::vector<void*> inputs, outputs;
    for (const std::uint32_t leaf : held.inputs) inputs.push_back(pointer_to(leaf));
    std::vector<Owned> given;
    for (std::size_t i = 0; i < kind_->given.size(); ++i) given.push_back(allocate_bytes(size_of(kind_->given[i])));
    for (std::size_t i = 0; i < held.outputs.size(); ++i) outputs.push_back(memory_of_output(i, given));
    std::vector<std::unique_ptr<dlpack::ManagedTensor, void (*)(dlpack::ManagedTensor*)>> exported;
    for (std::size_t i = 0; i < given.size(); ++i) {
      retain(given[i].get());
      exported.emplace_back(exported_of(kind_->given[i], given[i].get()), [](auto* each) { each->deleter(each); });
    }
    // What is an argument as it was before.
    for (std::size_t i = 0; i < given.size(); ++i)
      if (kind_->given[i].kind == PackageSource::Kind::argument) copy_argument(given[i]->data, kind_->given[i].index);
    std::vector<Owned> before;
    for (const runtime::PackageState& state : held.states) {
      const bool is_argument = state.source.kind == PackageSource::Kind::argument;
      before.push_back(is_argument ? allocate_bytes(size_of(state.source)) : nullptr);
      if (is_argument) copy_argument(before.back()->data, state.source.index);
    }
    {
      const DefaultFloatModes modes;
      runtime::run(held.plan, inputs, outputs,
                   std::span(symbols_).first(static_cast<std::size_t>(held.plan.symbol_count)));
    }
    // From here on nothing fails.
    for (std::size_t i = 0; i < given.size(); ++i)
      if (kind_->given[i].kind == PackageSource::Kind::output)
        copy(given[i]->data, outputs[kind_->given[i].index], size_of(kind_->given[i]));
    for (std::size_t i = 0; i < held.states.size(); ++i) {
      const auto& [leaf, source] = held.states[i];
      copy(passed(leaf).first, before[i] ? before[i]->data : outputs[source.index], size_of(source));
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

  void read(std::size_t number, const weft_tensor* given) {
    const auto bad = [&](const auto&... what) { refuse(WEFT_BAD_CALL, "tensor ", number, " of the call ", what...); };
    if (!given) bad("is a null pointer");
    const auto& view = *reinterpret_cast<const dlpack::View*>(given);
    PassedTensor& tensor = tensors_.emplace_back();
    if (view.rank < 0 || view.rank > max_rank) bad("has ", view.rank, " dimensions, a tensor has at most ", max_rank);
    if (view.rank > 0 && !view.shape) bad("has no sizes: its shape is a null pointer");
    const std::optional<DType> dtype = dtype_of_dlpack(view.dtype);
    if (!dtype)
      refuse(WEFT_MISMATCH, "tensor ", number, " of the call has elements of code ", static_cast<int>(view.dtype.code),
             ", ", static_cast<int>(view.dtype.bits), " bits and ", counted(view.dtype.lanes, "lane", "lanes"),
             ", which no dtype has");
    using Type = dlpack::DeviceType;
    if (view.device.type != Type::cpu && view.device.type != Type::cuda_host)
      refuse(WEFT_MISMATCH, "tensor ", number, " of the call is on a device of type ",
             static_cast<int>(view.device.type), ", the package holds functions of the CPU, which is type 1");
    tensor.dtype = *dtype;
    tensor.rank = static_cast<std::size_t>(view.rank);
    std::copy_n(view.shape, tensor.rank, tensor.sizes);
    tensor.bytes = bytes_of(tensor.dtype, tensor.shape());
    if (tensor.bytes < 0) bad("has a size that is negative, or too many elements");
    std::int64_t expected = 1;
    for (std::size_t axis = tensor.rank; axis-- > 0;) {
      tensor.strides[axis] = view.strides ? view.strides[axis] : expected;
      expected *= tensor.sizes[axis];
    }
    if (tensor.bytes == 0) return;
    if (!view.data) bad("has no memory: its data is a null pointer");
    tensor.first = static_cast<std::uint8_t*>(view.data) + view.byte_offset;
    tensor.is_plain = is_row_major(tensor.shape(), {tensor.strides, tensor.rank}) &&
                      reinterpret_cast<std::uintptr_t>(tensor.first) % storage_bytes(tensor.dtype, 1) == 0;
  }

  // Why the tensors do not fit; empty where they do. `leaf`: the first that does not.
  std::string why_not(const Kind& kind, std::size_t& leaf) const {
    leaf = 0;
    if (!kind.refusal.empty()) return kind.refusal;
    if (tensors_.size() != kind.passed.size())
      return concat_text("the call passes ", counted(static_cast<std::int64_t>(tensors_.size()), "tensor", "tensors"),
                         ", the package holds ", kind.passed.size());
    std::vector<runtime::GivenLeaf> given;
    std::size_t next = 0;
    for (const PackageLeaf& held : kind.held->arguments) {
      runtime::GivenLeaf& is = given.emplace_back();  // what is not passed is as it was
      is = {.kind = held.kind,
            .defined = held.defined,
            .weak = held.weak,
            .frozen = held.frozen,
            .bytes = held.bytes,
            .count = held.count};
      if (held.kind != PackageLeaf::Kind::tensor || !held.defined) continue;
      const PassedTensor& tensor = tensors_[next++];
      is.dtype = tensor.dtype, is.device = tensor.device;
      is.sizes.assign(tensor.sizes, tensor.sizes + tensor.rank);
    }
    return mismatch(*kind.held, given, leaf);
  }

  void choose(size_t asked) {
    std::string nearest;
    std::size_t furthest = 0;
    for (const Kind& kind : function_.kinds) {
      const auto number = static_cast<size_t>(&kind - function_.kinds.data());
      if (asked != WEFT_ANY_KIND && asked != number) continue;
      if (kind_ && kind.fixed == kind_->fixed) continue;  // the first of those that are alike
      std::size_t leaf = 0;
      std::string why = why_not(kind, leaf);
      if (why.empty() && kind_)
        refuse(WEFT_MISMATCH, "fits kinds ", kind_ - function_.kinds.data(), " and ", number,
               " of its arguments, which differ in what is no tensor: ask for one of them");
      if (why.empty())
        kind_ = &kind;
      else if (nearest.empty() || leaf > furthest)
        nearest = std::move(why), furthest = leaf;
    }
    if (kind_) return;
    const std::size_t count = function_.kinds.size();
    refuse(WEFT_MISMATCH,
           count > 1 && asked == WEFT_ANY_KIND
               ? concat_text("fits none of the ", count, " kinds of arguments that the package holds; of the nearest, ")
               : std::string(),
           nearest);
  }

  PassedTensor& passed(std::size_t leaf) {
    const auto found = std::ranges::lower_bound(kind_->passed, leaf);
    return tensors_[static_cast<std::size_t>(found - kind_->passed.begin())];
  }

  void read_symbols() {
    symbols_.resize(kind_->held->symbols.size());
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      const std::vector<Dim>& sizes = kind_->held->arguments[kind_->passed[i]].sizes;
      for (std::size_t axis = 0; axis < sizes.size(); ++axis)
        if (!sizes[axis].is_constant())
          symbols_[static_cast<std::size_t>(sizes[axis].node()->number)] = tensors_[i].sizes[axis];
    }
  }

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
    struct Extent {
      std::uintptr_t begin, end;
      std::size_t leaf;
    };
    std::vector<Extent> extents;
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
    if (tensor.bytes > 0)
      copy_to_row_major(static_cast<std::uint8_t*>(to), tensor.first, tensor.shape(), {tensor.strides, tensor.rank},
                        storage_bytes(tensor.dtype, 1));
  }

  void* pointer_to(std::size_t leaf) {
    const PassedTensor& tensor = passed(leaf);
    if (tensor.is_plain && tensor.first) return tensor.first;
    copies_.push_back(allocate_bytes(static_cast<std::size_t>(tensor.bytes)));
    copy_argument(copies_.back()->data, leaf);
    return copies_.back()->data;
  }

  // ---- results

  struct Output {
    std::vector<std::int64_t> sizes;
    std::size_t bytes = 0;
  };
  void size_output(std::size_t number) {
    const PackageOutput& output = kind_->held->outputs[number];
    Output& made = outputs_.emplace_back();
    for (const Dim size : output.sizes)
      made.sizes.push_back(size.is_constant() ? size.constant() : dims::evaluate(size, symbols_));
    const std::int64_t bytes = bytes_of(output.dtype, made.sizes);
    if (bytes < 0) refuse(WEFT_MISMATCH, "would give a result with too many elements, or of a negative size");
    made.bytes = static_cast<std::size_t>(bytes);
  }
  bool is_output(const PackageSource& source) const { return source.kind == PackageSource::Kind::output; }
  std::span<const std::int64_t> shape_of(const PackageSource& source) {
    return is_output(source) ? std::span<const std::int64_t>(outputs_[source.index].sizes)
                             : passed(source.index).shape();
  }
  std::size_t size_of(const PackageSource& source) {
    return is_output(source) ? outputs_[source.index].bytes : static_cast<std::size_t>(passed(source.index).bytes);
  }
  void* memory_of_output(std::size_t number, const std::vector<Owned>& given) {
    if (const std::size_t result = kind_->result_of[number]; result != Kind::none) return given[result]->data;
    if (const std::uint32_t leaf = kind_->in_place[number]; leaf != PackageOutput::no_leaf && passed(leaf).first)
      return passed(leaf).first;
    copies_.push_back(allocate_bytes(outputs_[number].bytes));
    return copies_.back()->data;
  }
  dlpack::ManagedTensor* exported_of(const PackageSource& source, Storage* storage) {
    const std::span<const std::int64_t> sizes = shape_of(source);
    std::int64_t strides[max_rank], expected = 1;
    for (std::size_t axis = sizes.size(); axis-- > 0;) {
      strides[axis] = expected;
      expected *= std::max<std::int64_t>(sizes[axis], 1);
    }
    const DType dtype = is_output(source) ? kind_->held->outputs[source.index].dtype : passed(source.index).dtype;
    return export_memory<dlpack::ManagedTensor>(storage, storage->data, dtype, sizes, {strides, sizes.size()});
  }
  static void copy(void* to, const void* from, std::size_t bytes) {
    if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
  }

  const FunctionState& function_;
  const Kind* kind_ = nullptr;
  std::vector<PassedTensor> tensors_;
  std::vector<std::int64_t> symbols_;
  std::vector<Output> outputs_;
  std::vector<Owned> copies_;
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
