#include "runtime/host/onednn_convolution.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <string_view>

#include "base/fail.hpp"
#include "base/fork.hpp"
#include "base/hash.hpp"
#include "base/lazy.hpp"
#include "base/member_count.hpp"
#include "base/storage.hpp"
#include "runtime/parallel.hpp"
#include "runtime/steps.hpp"

namespace weft::runtime::onednn {

namespace {

using Int = std::int64_t;

// Numbers of the library's enumerations.
constexpr int forward = 96, direct = 1, any_layout = 1, name_of_kernel = 8;
constexpr int input_layout = 129, input_gradient_layout = 130, weight_layout = 131, weight_gradient_layout = 132,
              output_layout = 133, output_gradient_layout = 134;

// Cut until there are so many tiles, into parts of at least so many channels, which the library takes in blocks.
// A tile costs the library's calls about 6 us: much for a depthwise convolution.
constexpr Int tiles_wanted = 8, depthwise_tiles_wanted = 6, least_channels = 32, block = 16;
constexpr std::size_t most_kept = 512;  // made ones

struct Sides {
  int axes;
  Int sizes[6], strides[6];
};

// Size-1 axes have arbitrary strides; the library wants consistent ones.
bool lay(const Library& library, Sides sides, int type, Layout& layout) {
  Int beyond = 1;
  for (int i = 0; i < sides.axes; ++i)
    if (sides.sizes[i] > 1) beyond = std::max(beyond, sides.strides[i] * sides.sizes[i]);
  for (int i = 0; i < sides.axes; ++i)
    if (sides.sizes[i] == 1) sides.strides[i] = beyond;
  return library.dnnl_memory_desc_init_by_strides(&layout, sides.axes, sides.sizes, type, sides.strides) == 0;
}

}  // namespace

void Convolution::cut() {
  ConvolutionSizes& s = sizes_;
  const Int channels = s.groups > 1 ? s.groups : s.result == Convolved::input ? s.inputs : s.outputs;
  const Int known = s.result == Convolved::weight ? 1 : std::max<Int>(s.batch, 1);
  if (s.groups > 1 && s.groups == s.inputs) {  // whole blocks of channels, of which there may be an odd number
    const Int blocks = channels % block == 0 ? channels / block : 1;
    for (Int parts = 2; parts_ * known < depthwise_tiles_wanted && parts <= blocks; ++parts)
      if (blocks % parts == 0) parts_ = parts;
  } else {
    const Int least = s.groups > 1 ? 1 : least_channels;
    while (parts_ * known < tiles_wanted && channels % (parts_ * 2) == 0 && channels / (parts_ * 2) % least == 0)
      parts_ *= 2;
  }
  // Each chunk's sum is a value of its own, and sums of f32 alone are added up.
  if (s.result != Convolved::weight || s.dtype != DType::f32) return;
  for (Int count = 1; count <= std::min(s.batch, tiles_wanted) && parts_ * chunks_ < tiles_wanted; ++count)
    if (s.batch % count == 0) chunks_ = count;
}

bool Convolution::describe(const Library& library, Description*& description) {
  const ConvolutionSizes& s = sizes_;
  const bool grouped = s.groups > 1, of_weight = s.result == Convolved::weight;
  const Int groups = grouped ? s.groups / parts_ : 1;
  const Int inputs = grouped || s.result == Convolved::input ? s.inputs / parts_ : s.inputs,
            outputs = grouped || s.result != Convolved::input ? s.outputs / parts_ : s.outputs;
  const Int items = of_weight ? s.batch / chunks_ : 1;
  Sides input{s.axes + 2, {items, inputs}, {}}, output{s.axes + 2, {items, outputs}, {}}, weight{0, {}, {}};
  const auto add = [&](Int size, Int stride) {
    weight.sizes[weight.axes] = size;
    weight.strides[weight.axes++] = stride;
  };
  if (grouped) add(groups, s.weight_strides[0] * (outputs / groups));
  add(outputs / groups, s.weight_strides[0]);
  add(inputs / groups, s.weight_strides[1]);
  Int dilation[3];
  for (int i = 0; i < s.axes + 2; ++i) {
    const auto axis = static_cast<std::size_t>(i);
    input.strides[i] = s.input_strides[axis];
    output.strides[i] = s.output_strides[axis];
    if (i < 2) continue;
    input.sizes[i] = s.size[axis - 2], output.sizes[i] = s.positions[axis - 2];
    add(s.kernel[axis - 2], s.weight_strides[axis]);
    dilation[i - 2] = s.dilation[axis - 2] - 1;
  }
  // By value, as Convolved numbers them: output, input, weight.
  const Sides* const sides[] = {&output, &input, &weight};
  constexpr auto y = static_cast<int>(Convolved::output), x = static_cast<int>(Convolved::input),
                 w = static_cast<int>(Convolved::weight);
  Layout own[3];     // what the library likes
  Value* values[3];  // operands or the result
  for (int operand = 0; operand < 3; ++operand)
    values[static_cast<int>(value_of_operand(s.result, operand))] = &values_[operand];
  for (int i = 0; i < 3; ++i) {
    const int type = data_type(i == static_cast<int>(s.result) ? s.result_dtype() : s.dtype);
    if (library.dnnl_memory_desc_init_by_tag(&own[i], sides[i]->axes, sides[i]->sizes, type, any_layout) != 0)
      return false;
    if (!lay(library, *sides[i], type, values[i]->given)) return false;
  }
  Operation operation;
  const Int *const strides = s.strides.data(), *const low = s.low.data(), *const high = s.high.data();
  int status = 0;
  if (s.result == Convolved::output)
    status = library.dnnl_dilated_convolution_forward_desc_init(&operation, forward, direct, &own[x], &own[w], nullptr,
                                                                &own[y], strides, dilation, low, high);
  else if (s.result == Convolved::input)
    status = library.dnnl_dilated_convolution_backward_data_desc_init(&operation, direct, &own[x], &own[w], &own[y],
                                                                      strides, dilation, low, high);
  else
    status = library.dnnl_dilated_convolution_backward_weights_desc_init(&operation, direct, &own[x], &own[w], nullptr,
                                                                         &own[y], strides, dilation, low, high);
  description = status == 0 ? onednn::describe(library, operation) : nullptr;
  if (!description) return false;
  // Asked for as layouts of a value or of its gradient.
  const int kinds[] = {s.result == Convolved::output ? output_layout : output_gradient_layout,
                       s.result == Convolved::input ? input_gradient_layout : input_layout,
                       of_weight ? weight_gradient_layout : weight_layout};
  for (int i = 0; i < 3; ++i)
    std::memcpy(&values[i]->own, library.dnnl_primitive_desc_query_md(description, kinds[i], 0), layout_bytes);

  values[x]->item_step = items * s.input_strides[0];
  values[y]->item_step = items * s.output_strides[0];
  const bool by_inputs = s.result == Convolved::input;
  if (grouped || by_inputs) values[x]->part_step = inputs * s.input_strides[1];
  if (grouped || !by_inputs) values[y]->part_step = outputs * s.output_strides[1];
  values[w]->part_step = grouped || !by_inputs ? outputs * s.weight_strides[0] : inputs * s.weight_strides[1];
  if (chunks_ > 1) values[w]->item_step = s.outputs * s.weight_strides[0];  // sums of chunks, one after the other
  return true;
}

std::shared_ptr<const Convolution> Convolution::make(const Library& library, const ConvolutionSizes& sizes,
                                                     Kernels kernels) {
  if (sizes.is_empty() || (sizes.result == Convolved::weight && sizes.batch < 0)) return nullptr;
  const OneThread alone;
  const std::shared_ptr<Convolution> made(new Convolution);
  made->sizes_ = sizes;
  made->cut();
  Description* description = nullptr;
  if (!made->describe(library, description)) return nullptr;
  const char* name = nullptr;
  library.dnnl_primitive_desc_query(description, name_of_kernel, 0, &name);
  const std::string_view kernel = name ? name : "";
  const bool good = kernels == Kernels::any || kernel.starts_with("jit") || kernel.starts_with("brg") ||
                    kernel.starts_with("brdgmm");  // else loops, or products like ours
  std::vector<Task::Operand> operands;
  for (int i = 0; i < 3; ++i) {
    constexpr int arguments[2][3] = {
        {argument::source, argument::weights, argument::result},
        {argument::source_gradient, argument::weights_gradient, argument::result_gradient}};
    const Convolved value = value_of_operand(sizes.result, i);
    const bool gradient = sizes.result != Convolved::output && (value == sizes.result || value == Convolved::output);
    operands.push_back({arguments[gradient][value == Convolved::input    ? 0
                                            : value == Convolved::weight ? 1
                                                                         : 2],
                        made->values_[i].own});
  }
  if (!good) {
    library.dnnl_primitive_desc_destroy(description);
    return nullptr;
  }
  made->task_ = Task::make(library, description, std::move(operands));
  if (!made->task_) return nullptr;
  made->scratch_ = made->task_->scratch();
  for (int i = 0; i < 3; ++i) {
    Value& value = made->values_[i];
    if (library.dnnl_memory_desc_equal(&value.given, &value.own)) continue;
    value.reorder = i < 2 ? Task::make_reorder(library, value.given, value.own)
                          : Task::make_reorder(library, value.own, value.given);
    if (!value.reorder) return nullptr;
    value.bytes = (library.dnnl_memory_desc_get_size(&value.own) + 63) / 64 * 64;
    made->scratch_ = std::max(made->scratch_, value.reorder->scratch());
  }
  return made;
}

std::shared_ptr<const Convolution> Convolution::find(const Library& library, const ConvolutionSizes& sizes,
                                                     Kernels kernels) {
  static constinit Lazy<std::map<ConvolutionSizes, std::shared_ptr<const Convolution>>> all[2];
  auto& known = all[static_cast<int>(kernels)].get();
  const std::lock_guard no_fork(process_mutex(LockOrder::loader));  // a child could not make any afterwards
  if (const auto found = known.find(sizes); found != known.end()) return found->second;
  std::shared_ptr<const Convolution> made = make(library, sizes, kernels);
  if (known.size() >= most_kept) known.clear();
  return known.try_emplace(sizes, std::move(made)).first->second;
}

std::size_t Convolution::thread_bytes() const {
  std::size_t bytes = scratch_;
  for (int i = 0; i < 3; ++i)
    if (i != 1 || !keeps_weights()) bytes += values_[i].bytes;
  return bytes;
}

std::size_t Convolution::partial_bytes() const {
  if (chunks_ == 1) return 0;
  return (static_cast<std::size_t>(chunks_ * values_[2].item_step) * sizeof(float) + 63) / 64 * 64;
}

std::size_t Convolution::workspace(Int batch) const {
  const Int tiles = items(batch) * parts_;
  return (keeps_weights() ? static_cast<std::size_t>(parts_) * values_[1].bytes : 0) + partial_bytes() +
         static_cast<std::size_t>(std::min<Int>(tiles, num_threads())) * thread_bytes();
}

struct Convolution::Run {
  const Convolution& it;
  std::byte* data[3];
  const std::byte* weights;
  std::byte *partial, *threads;

  std::byte* given(int value, Int item, Int part) const {
    const Value& v = it.values_[value];
    const DType dtype = value < 2 ? it.sizes_.dtype : it.sizes_.result_dtype();
    return data[value] + storage_bytes(info(dtype), item * v.item_step + part * v.part_step);
  }
  static void reorder(const Task& task, void* from, void* to, std::byte* scratch) {
    void* const pair[] = {from, to};
    task.run(pair, scratch, "convolution");
  }

  void run_tiles(Chunks& chunks) const {
    const OneThread alone;
    std::byte* next = threads + static_cast<std::size_t>(chunks.place()) * it.thread_bytes();
    std::byte* own[3] = {};
    for (int i = 0; i < 3; ++i) {
      own[i] = next;
      if (i != 1 || !it.keeps_weights()) next += it.values_[i].bytes;
    }
    const std::byte* held[2] = {};  // what own[i] was put in order from
    for_each_index(chunks, [&](Int tile) {
      const Int item = tile / it.parts_, part = tile % it.parts_;
      void* operands[3];
      for (int i = 0; i < 3; ++i) {
        std::byte* const from = given(i, item, part);
        const Value& value = it.values_[i];
        operands[i] = value.bytes == 0 ? from : own[i];
        if (i == 1 && it.keeps_weights()) {
          operands[i] = const_cast<std::byte*>(weights) + static_cast<std::size_t>(part) * value.bytes;
        } else if (i < 2 && value.bytes > 0 && held[i] != from) {
          reorder(*value.reorder, from, own[i], next);
          held[i] = from;
        }
      }
      it.task_->run(operands, next, "convolution");
      if (it.values_[2].bytes > 0) reorder(*it.values_[2].reorder, own[2], given(2, item, part), next);
    });
  }
  void prepare_weights(std::byte* to) const {
    const OneThread alone;
    const Value& value = it.values_[1];
    for (Int part = 0; part < it.parts_; ++part)
      reorder(*value.reorder, given(1, 0, part), to + static_cast<std::size_t>(part) * value.bytes, threads);
  }
};

static std::byte* bytes_at(const void* data) { return static_cast<std::byte*>(const_cast<void*>(data)); }

void Convolution::pack_weights(const void* b, std::byte* to) const {
  const std::unique_ptr<Storage, void (*)(Storage*)> scratch(allocate(Device{}, std::max<std::size_t>(scratch_, 64)),
                                                             release);
  Run{*this, {nullptr, bytes_at(b), nullptr}, nullptr, nullptr, static_cast<std::byte*>(scratch->data)}.prepare_weights(
      to);
}

void Convolution::run(Int batch, const void* a, const void* b, void* result, std::span<std::byte> workspace,
                      const std::byte* weights) const {
  const std::size_t kept = packed_bytes();
  std::byte* const partial = workspace.data() + kept;
  Run work{*this,
           {bytes_at(a), bytes_at(b), bytes_at(result)},
           weights ? weights : workspace.data(),
           partial,
           partial + partial_bytes()};
  if (chunks_ > 1) work.data[2] = partial;
  const Int tiles = items(batch) * parts_;
  if (tiles == 0) return;
  const std::size_t left = workspace.size() - kept - partial_bytes();
  const Int most_threads = thread_bytes() > 0 ? static_cast<Int>(left / thread_bytes()) : tiles;
  WEFT_CHECK(most_threads > 0, "a workspace of ", workspace.size(), " bytes");
  if (kept > 0 && !weights) work.prepare_weights(workspace.data());
  parallel_for(
      0, tiles, 1, most_threads,
      [](void* context, Chunks& chunks) { static_cast<const Run*>(context)->run_tiles(chunks); }, &work);
  if (chunks_ == 1) return;
  const Int count = values_[2].item_step;
  auto* const sums = reinterpret_cast<const float*>(partial);
  auto* const to = static_cast<float*>(result);
  for (Int i = 0; i < count; ++i) {
    float sum = sums[i];
    for (Int chunk = 1; chunk < chunks_; ++chunk) sum += sums[chunk * count + i];
    to[i] = sum;
  }
}

}  // namespace weft::runtime::onednn

namespace weft::runtime {

std::shared_ptr<const onednn::Convolution> OneDnnConvolution::of(std::span<const std::int64_t> numbers) const {
  if (convolution_) return convolution_;
  ConvolutionSizes sizes = dims_.with(numbers.subspan(values_.begin, values_.count));
  if (!dims_.batch().is_constant() && sizes.result != Convolved::weight) sizes.batch = -1;
  auto found = onednn::Convolution::find(library_, sizes, onednn::Convolution::Kernels::any);
  if (!found) refuse_sizes("oneDNN", dims_.with(numbers.subspan(values_.begin, values_.count)));
  return found;
}

Digest OneDnnConvolution::packed_as(std::size_t) const {
  FieldWriter fields;
  fields(std::string(StoredOneDnnConvolution::name), convolution_->sizes(), weight_offset_);
  return digest(fields.bytes());
}

bool OneDnnConvolution::fits(std::span<const std::int64_t> numbers, std::span<const Room> rooms) const {
  return convolution_fits(dims_.with(numbers.subspan(values_.begin, values_.count)),
                          numbers.subspan(offsets_.begin, offsets_.count), rooms);
}

static_assert(lists_all<ConvolutionFields>, "a member is not in fields()");

std::shared_ptr<const StoredStep> StoredOneDnnConvolution::read(FieldReader& from, const StepReader&) {
  auto fields = from.take<ConvolutionFields>();
  if (!fields.dims.is_sound() || !fields.served.is_sound() || fields.offsets.size() < 3) throw Malformed();
  // What is served is what is computed, where that is known already.
  if (auto known = fields.dims.known(); known && (known->batch >= 0 || known->result != Convolved::weight)) {
    if (fields.served.batch < 0) known->batch = -1;
    if (*known < fields.served || fields.served < *known) throw Malformed();
  }
  const onednn::Library* library = onednn::library();
  if (!library) return nullptr;
  auto step = std::make_shared<StoredOneDnnConvolution>(std::move(fields), *library);
  return step->is_made() ? std::move(step) : nullptr;
}

const NamedStep steps::onednn_convolution{StoredOneDnnConvolution::name, StoredOneDnnConvolution::read};

}  // namespace weft::runtime
