#include "runtime/cuda/plan.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/fail.hpp"
#include "runtime/cuda/blas.hpp"
#include "runtime/cuda/code.hpp"
#include "runtime/plan_matmul.hpp"

namespace weft::runtime::cuda {
namespace {

using Range = NumberTable::Range;

// Where a buffer's pointer comes from.
struct Place {
  PlanBuffer buffer;
  Range offset, elements;
  std::size_t staged = 0;  // host: which of the staged values
};

struct Step {
  const Launch* launch = nullptr;
  Function* function = nullptr;
  Range parameters, units, sizes;
  PlanMatmul matmul;
};

struct Frame {
  std::vector<std::int64_t> numbers, symbols;
  std::vector<void*> pointers;         // by buffer
  std::vector<std::uint64_t> words;    // a kernel's arguments
  std::vector<std::byte> staging;      // the host's side of what is copied to the device
  std::vector<std::size_t> staged_at;  // by staged value: where it lies in the staging
  std::size_t staged_bytes = 0;
  bool computed = false;
  Storage *arena = nullptr, *staged = nullptr;

  Frame() = default;
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;
  ~Frame() {
    if (arena) release(arena);
    if (staged) release(staged);
  }
};

// Blocks beyond what the device can hold at once stride on.
constexpr std::int64_t blocks_a_multiprocessor = 32;
constexpr std::size_t staging_alignment = 16;

class DevicePlan final : public PreparedPlan {
 public:
  explicit DevicePlan(const Plan& plan) : device_(use(plan.device)), code_(plan.device_code) {
    launches_ = plan.launches;
    argument_count_ = static_cast<std::size_t>(plan.argument_count);
    result_count_ = static_cast<std::size_t>(plan.result_count);
    symbol_count_ = static_cast<std::size_t>(plan.symbol_count);
    arena_bytes_ = numbers_.add({plan.arena_bytes});
    for (const PlanBuffer& buffer : plan.buffers) {
      Place place{buffer, numbers_.add({buffer.offset}), numbers_.add({buffer.elements}), 0};
      if (buffer.host) place.staged = staged_count_++;
      returns_to_host_ |= buffer.host && buffer.kind == PlanBuffer::Kind::result;
      places_.push_back(place);
    }
    for (const Launch& launch : launches_) add(launch);
    for (const std::vector<std::byte>& constant : plan.constants) {
      constants_.push_back(allocate(device_.device, constant.size()));
      device_memory(Device::Type::cuda)
          .copy(constants_.back()->data, device_.device, constant.data(), Device::cpu(), constant.size(), nullptr);
    }
    synchronize(device_.device);  // the bytes of constants may go with the plan
  }
  DevicePlan(const DevicePlan&) = delete;
  DevicePlan& operator=(const DevicePlan&) = delete;
  ~DevicePlan() override {
    spares_.clear();
    for (Storage* constant : constants_) release(constant);
  }

  void run(std::span<void* const> arguments, std::span<void* const> results, std::span<const std::int64_t> symbols,
           Queue* queue, std::span<Storage* const> blocks) override {
    WEFT_CHECK(
        arguments.size() == argument_count_ && results.size() == result_count_ && symbols.size() == symbol_count_,
        "the plan was made for ", argument_count_, " arguments, ", result_count_, " results and ", symbol_count_,
        " symbols");
    WEFT_CHECK(!queue || queue == &device_.queue, "a device has one queue");
    use(device_.device);
    std::unique_ptr<Frame> frame = take();
    if (!frame->computed || !std::equal(symbols.begin(), symbols.end(), frame->symbols.begin()))
      compute(*frame, symbols);
    Storage* const own[] = {frame->arena, frame->staged};
    note_work(&device_.queue, {blocks, own});
    bind(*frame, arguments, results);
    for (const Step& step : steps_) (this->*runners[static_cast<int>(step.launch->kind)])(step, *frame);
    if (returns_to_host_ && frame->staged_bytes > 0) bring_back(*frame, results);
    const std::lock_guard lock(mutex_);
    spares_.push_back(std::move(frame));
  }

 private:
  void add(const Launch& launch) {
    Step step;
    step.launch = &launch;
    switch (launch.kind) {
      case Launch::Kind::kernel:
        step.function = code_->function(launch.name);
        step.parameters = numbers_.add(launch.parameters);
        step.units = numbers_.add({launch.units});
        break;
      case Launch::Kind::matmul:
        if (!launch.name.empty()) step.function = code_->function(launch.name);
        step.matmul = PlanMatmul(launch.matmul, numbers_);
        break;
      case Launch::Kind::scatter_add:
        step.function = code_->function(launch.name);
        step.sizes = numbers_.add({launch.rows, launch.count, launch.width});
        break;
      case Launch::Kind::check: break;
    }
    steps_.push_back(step);
  }

  std::unique_ptr<Frame> take() {
    {
      const std::lock_guard lock(mutex_);
      if (!spares_.empty()) {
        std::unique_ptr<Frame> frame = std::move(spares_.back());
        spares_.pop_back();
        return frame;
      }
    }
    auto frame = std::make_unique<Frame>();
    frame->numbers = numbers_.constants();
    frame->pointers.resize(places_.size());
    frame->symbols.resize(symbol_count_);
    frame->staged_at.resize(staged_count_);
    return frame;
  }

  static void* at(const Storage* storage, std::int64_t offset) {
    return storage ? static_cast<std::byte*>(storage->data) + offset : nullptr;
  }
  void grow(Storage*& storage, std::size_t bytes) const {
    if (bytes == 0 || (storage && storage->bytes >= bytes)) return;
    if (storage) release(std::exchange(storage, nullptr));
    storage = allocate(device_.device, bytes);
  }
  std::size_t bytes_of(const Place& place, const Frame& frame) const {
    return storage_bytes(place.buffer.dtype, frame.numbers[place.elements.begin]);
  }

  // Everything that depends on the symbols.
  void compute(Frame& frame, std::span<const std::int64_t> symbols) {
    frame.computed = false;
    numbers_.evaluate(symbols, frame.numbers);
    grow(frame.arena, static_cast<std::size_t>(frame.numbers[arena_bytes_.begin]));
    std::size_t staged = 0;
    for (const Place& place : places_) {
      if (!place.buffer.host) continue;
      frame.staged_at[place.staged] = staged;
      staged += (bytes_of(place, frame) + staging_alignment - 1) / staging_alignment * staging_alignment;
    }
    grow(frame.staged, staged);
    frame.staging.resize(staged);
    frame.staged_bytes = staged;
    std::copy(symbols.begin(), symbols.end(), frame.symbols.begin());
    frame.computed = true;
  }

  void bind(Frame& frame, std::span<void* const> arguments, std::span<void* const> results) {
    bool uploads = false;
    for (std::size_t i = 0; i < places_.size(); ++i) {
      const Place& place = places_[i];
      const auto index = static_cast<std::size_t>(place.buffer.index);
      switch (place.buffer.kind) {
        case PlanBuffer::Kind::argument:
          frame.pointers[i] = arguments[index];
          if (place.buffer.host) {
            std::memcpy(frame.staging.data() + frame.staged_at[place.staged], arguments[index], bytes_of(place, frame));
            uploads = true;
          }
          break;
        case PlanBuffer::Kind::result: frame.pointers[i] = results[index]; break;
        case PlanBuffer::Kind::temporary: frame.pointers[i] = at(frame.arena, frame.numbers[place.offset.begin]); break;
        case PlanBuffer::Kind::constant: frame.pointers[i] = constants_[index]->data; break;
      }
      if (place.buffer.host)
        frame.pointers[i] = at(frame.staged, static_cast<std::int64_t>(frame.staged_at[place.staged]));
    }
    // Memory that is not pinned has been read when the call returns.
    if (uploads && frame.staged_bytes > 0)
      check(driver().cuMemcpyHtoDAsync_v2(reinterpret_cast<Pointer>(frame.staged->data), frame.staging.data(),
                                          frame.staged_bytes, device_.queue.stream),
            "cuMemcpyHtoDAsync");
  }

  void bring_back(Frame& frame, std::span<void* const> results) {
    check(driver().cuMemcpyDtoHAsync_v2(frame.staging.data(), reinterpret_cast<Pointer>(frame.staged->data),
                                        frame.staged_bytes, device_.queue.stream),
          "cuMemcpyDtoHAsync");
    synchronize(device_.device);
    for (const Place& place : places_)
      if (place.buffer.host && place.buffer.kind == PlanBuffer::Kind::result)
        std::memcpy(results[static_cast<std::size_t>(place.buffer.index)],
                    frame.staging.data() + frame.staged_at[place.staged], bytes_of(place, frame));
  }

  // ---- steps
  // ----------------------------------------------------------------------------------------------------------
  void* pointer(const Step& step, std::size_t i, const Frame& frame) const {
    return frame.pointers[static_cast<std::size_t>(step.launch->buffers[i])];
  }

  // Arguments<Buffers, Sizes> of cuda.inc: pointers, then sizes, at least one of each.
  void launch(Function* function, std::int64_t blocks, int threads, std::span<const std::int64_t> sizes,
              Frame& frame) const {
    if (blocks <= 0) return;
    if (sizes.empty()) frame.words.push_back(0);
    for (const std::int64_t size : sizes) frame.words.push_back(static_cast<std::uint64_t>(size));
    std::size_t bytes = frame.words.size() * sizeof(std::uint64_t);
    // CU_LAUNCH_PARAM_BUFFER_POINTER, CU_LAUNCH_PARAM_BUFFER_SIZE, CU_LAUNCH_PARAM_END
    void* extra[] = {reinterpret_cast<void*>(1), frame.words.data(), reinterpret_cast<void*>(2), &bytes, nullptr};
    const std::int64_t grid = std::min(blocks, device_.multiprocessors * blocks_a_multiprocessor);
    check(driver().cuLaunchKernel(function, static_cast<unsigned>(grid), 1, 1, static_cast<unsigned>(threads), 1, 1, 0,
                                  device_.queue.stream, nullptr, extra),
          "cuLaunchKernel");
  }
  void put_pointers(const Step& step, Frame& frame) const {
    frame.words.clear();
    for (std::size_t i = 0; i < step.launch->buffers.size(); ++i)
      frame.words.push_back(reinterpret_cast<std::uint64_t>(pointer(step, i, frame)));
    if (frame.words.empty()) frame.words.push_back(0);
  }
  static std::span<const std::int64_t> numbers(Range range, const Frame& frame) {
    return std::span(frame.numbers).subspan(range.begin, range.count);
  }

  void run_kernel(const Step& step, Frame& frame) {
    put_pointers(step, frame);
    launch(step.function, frame.numbers[step.units.begin], step.launch->threads, numbers(step.parameters, frame),
           frame);
  }

  void run_matmul(const Step& step, Frame& frame) {
    const Matmul product = step.matmul.product(frame.numbers);
    const auto element = static_cast<std::int64_t>(storage_bytes(product.dtype, 1));
    std::byte* operands[3];
    for (std::size_t i = 0; i < 3; ++i) operands[i] = step.matmul.first(i, pointer(step, i, frame), frame.numbers);
    if (library_product(device_, product, operands[0], operands[1], operands[2])) return;
    std::int64_t batches = 1;
    for (const std::int64_t axis : product.batch) batches *= axis;
    if (product.m * product.n * batches == 0) return;
    WEFT_CHECK(step.function, "a product that cuBLASLt does not take has no kernel");
    for (std::int64_t batch = 0; batch < batches; ++batch) {
      std::int64_t left = batch, at[3] = {};
      for (std::size_t i = product.batch.size(); i-- > 0;) {
        const std::int64_t place = left % product.batch[i];
        left /= product.batch[i];
        at[0] += place * product.a_batch[i];
        at[1] += place * product.b_batch[i];
        at[2] += place * product.c_batch[i];
      }
      frame.words.clear();
      for (int i = 0; i < 3; ++i) frame.words.push_back(reinterpret_cast<std::uint64_t>(operands[i] + at[i] * element));
      const std::int64_t sizes[] = {product.m,     product.n,        product.k,     product.a_row,   product.a_column,
                                    product.b_row, product.b_column, product.c_row, product.c_column};
      launch(step.function, (product.m * product.n + 255) / 256, 256, sizes, frame);
    }
  }

  // Parts of the table's rows go to different threads; each column has threads of its own anyway.
  void run_scatter_add(const Step& step, Frame& frame) {
    const std::span<const std::int64_t> size = numbers(step.sizes, frame);
    const std::int64_t rows = size[0], width = size[2];
    const std::int64_t parts =
        std::clamp<std::int64_t>(16384 / std::max<std::int64_t>(width, 1), 1, std::max<std::int64_t>(rows, 1));
    put_pointers(step, frame);
    const std::int64_t sizes[] = {rows, size[1], width, parts};
    launch(step.function, (width * parts + 127) / 128, 128, sizes, frame);
  }

  void run_check(const Step& step, Frame& frame) {
    unsigned char holds = 0;
    check(driver().cuMemcpyDtoHAsync_v2(&holds, reinterpret_cast<Pointer>(pointer(step, 0, frame)), 1,
                                        device_.queue.stream),
          "cuMemcpyDtoHAsync");
    synchronize(device_.device);
    if (!holds) throw Error(step.launch->message.c_str());
  }

  using Run = void (DevicePlan::*)(const Step&, Frame&);
  static constexpr Run runners[] = {&DevicePlan::run_kernel, &DevicePlan::run_matmul, &DevicePlan::run_scatter_add,
                                    &DevicePlan::run_check};  // by Launch::Kind

  DeviceState& device_;
  std::shared_ptr<Code> code_;
  std::vector<Launch> launches_;
  std::size_t argument_count_ = 0, result_count_ = 0, symbol_count_ = 0, staged_count_ = 0;
  bool returns_to_host_ = false;
  NumberTable numbers_;
  Range arena_bytes_;
  std::vector<Place> places_;
  std::vector<Step> steps_;
  std::vector<Storage*> constants_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Frame>> spares_;  // frames of calls that have ended
};

}  // namespace

std::shared_ptr<PreparedPlan> prepare(const Plan& plan) { return std::make_shared<DevicePlan>(plan); }

}  // namespace weft::runtime::cuda
