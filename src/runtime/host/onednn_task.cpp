#include "runtime/host/onednn_task.hpp"

#include <omp.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "base/fail.hpp"
#include "base/storage.hpp"

namespace weft::runtime::onednn {

namespace {

constexpr int out_of_memory = 1;  // a status
constexpr int in_order = 1, by_user = 1, scratchpad_layout = 136, unsigned_bytes = 6;
constexpr std::size_t most_operands = 5;

// With the scratch memory given by the caller.
struct Settings {
  const Library& library;
  Attributes* attributes = nullptr;
  explicit Settings(const Library& from) : library(from) {
    if (library.dnnl_primitive_attr_create(&attributes) != 0) attributes = nullptr;
    if (attributes) library.dnnl_primitive_attr_set_scratchpad_mode(attributes, by_user);
  }
  ~Settings() {
    if (attributes) library.dnnl_primitive_attr_destroy(attributes);
  }
};

// The library asks the heap for some small objects while it runs. Steps before it may have written state by then, so
// that the call must not fail any more: this much is set aside, and given up where the heap has no more.
constexpr std::size_t reserved_bytes = std::size_t{1} << 20;
std::atomic<void*> reserved = nullptr;

void set_aside() {
  if (reserved.load(std::memory_order_relaxed)) return;
  void* none = nullptr;
  if (void* const memory = std::malloc(reserved_bytes); !reserved.compare_exchange_strong(none, memory))
    std::free(memory);
}
void give_up_reserve() {
  give_back_cached_memory();
  std::free(reserved.exchange(nullptr));
}

}  // namespace

OneThread::OneThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
OneThread::~OneThread() { omp_set_num_threads(before_); }

Description* describe(const Library& library, const Operation& operation) {
  const Settings settings(library);
  Description* description = nullptr;
  const bool made =
      settings.attributes &&
      library.dnnl_primitive_desc_create(&description, &operation, settings.attributes, library.engine, nullptr) == 0;
  return made ? description : nullptr;
}

std::shared_ptr<const Task> Task::make(const Library& library, const Operation& operation,
                                       std::vector<Operand> operands) {
  return make(library, describe(library, operation), std::move(operands));
}

std::shared_ptr<const Task> Task::make_reorder(const Library& library, const Layout& from, const Layout& to) {
  const Settings settings(library);
  Description* description = nullptr;
  const bool made =
      settings.attributes && library.dnnl_reorder_primitive_desc_create(&description, &from, library.engine, &to,
                                                                        library.engine, settings.attributes) == 0;
  return make(library, made ? description : nullptr, {{argument::source, from}, {argument::result, to}});
}

std::shared_ptr<const Task> Task::make(const Library& library, Description* description,
                                       std::vector<Operand> operands) {
  if (!description) return nullptr;
  set_aside();
  const std::shared_ptr<Task> task(new Task(library));
  task->operands_ = std::move(operands);
  const Layout* const scratch = library.dnnl_primitive_desc_query_md(description, scratchpad_layout, 0);
  if (const std::size_t bytes = scratch ? library.dnnl_memory_desc_get_size(scratch) : 0; bytes > 0) {
    task->scratch_ = (bytes + 63) / 64 * 64;
    const auto size = static_cast<std::int64_t>(bytes), step = std::int64_t{1};
    Operand& last = task->operands_.emplace_back(Operand{argument::scratchpad, {}});
    library.dnnl_memory_desc_init_by_strides(&last.layout, 1, &size, unsigned_bytes, &step);
  }
  WEFT_CHECK(task->operands_.size() <= most_operands);
  if (library.dnnl_primitive_create(&task->primitive_, description) != 0) task->primitive_ = nullptr;
  library.dnnl_primitive_desc_destroy(description);
  return task->primitive_ ? task : nullptr;
}

Task::~Task() {
  if (primitive_) library_.dnnl_primitive_destroy(primitive_);
}

int Task::attempt(std::span<void* const> data, std::byte* scratch) const try {
  struct Objects {  // of one execution
    const Library& library;
    Stream* stream = nullptr;
    Argument arguments[most_operands] = {};
    ~Objects() {
      for (const Argument& each : arguments)
        if (each.memory) library.dnnl_memory_destroy(each.memory);
      if (stream) library.dnnl_stream_destroy(stream);
    }
  } objects{library_};
  int status = library_.dnnl_stream_create(&objects.stream, library_.engine, in_order);
  for (std::size_t i = 0; i < operands_.size() && status == 0; ++i) {
    objects.arguments[i].index = operands_[i].argument;
    status = library_.dnnl_memory_create(&objects.arguments[i].memory, &operands_[i].layout, library_.engine,
                                         i < data.size() ? data[i] : scratch);
  }
  if (status != 0) return status;
  return library_.dnnl_primitive_execute(primitive_, objects.stream, static_cast<int>(operands_.size()),
                                         objects.arguments);
} catch (const std::bad_alloc&) {
  return out_of_memory;
}

void Task::run(std::span<void* const> data, std::byte* scratch, const char* operation) const {
  int status = attempt(data, scratch);
  if (status == out_of_memory) {
    give_up_reserve();
    status = attempt(data, scratch);
    set_aside();
  }
  if (status == out_of_memory) throw OutOfMemory(concat_text("[", operation, "] oneDNN found no memory").c_str());
  WEFT_CHECK(status == 0, "oneDNN failed in a ", operation, ": status ", status);
}

}  // namespace weft::runtime::onednn
