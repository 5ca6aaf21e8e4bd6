// cuBLASLt stores matrices by columns. An operand must have unit stride down its columns, and may be transposed; a
// result that is stored by rows is computed as its transpose.
#include "runtime/cuda/blas.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "base/fail.hpp"
#include "base/log.hpp"
#include "base/options.hpp"
#include "runtime/cuda/fastest.hpp"
#include "runtime/cuda/per_device.hpp"
#include "runtime/cuda/stored_answer.hpp"
#include "runtime/fields.hpp"

namespace weft::runtime::cuda {
namespace {

// Numbers of cublasLt.h and library_types.h.
constexpr int type_f32 = 0, type_f64 = 1, type_f16 = 2, type_bf16 = 14, compute_f32 = 68, compute_f64 = 70,
              compute_tf32 = 77;
int type_of(DType dtype) {
  return dtype == DType::f64 ? type_f64 : dtype == DType::f16 ? type_f16 : dtype == DType::bf16 ? type_bf16 : type_f32;
}
constexpr int description_transpose_a = 3, description_transpose_b = 4, description_epilogue = 7, description_bias = 8;
constexpr int description_aux = 11, description_aux_leading = 12;
constexpr std::uint32_t epilogue_bias = 4, epilogue_gelu = 32, epilogue_aux = 128, epilogue_gelu_gradient = 192;
std::uint32_t number_of(Epilogue epilogue, bool has_bias) {
  constexpr std::uint32_t none = 1;
  const std::uint32_t bias = has_bias ? epilogue_bias : 0;
  switch (epilogue) {
    case Epilogue::none: return has_bias ? bias : none;
    case Epilogue::gelu: return epilogue_gelu | bias;
    case Epilogue::gelu_kept: return epilogue_gelu | epilogue_aux | bias;
    case Epilogue::gelu_gradient: return epilogue_gelu_gradient;
  }
  return none;
}
constexpr int layout_batch_count = 5, layout_batch_stride = 6;
constexpr int preference_workspace = 1, preference_reductions = 3, preference_alignment_a = 5;
constexpr std::uint32_t reduce_in_compute_type = 2;  // parts of a sum are not rounded to 16 bits before they are added

constexpr std::size_t workspace_bytes = product_workspace_bytes;
constexpr int most_tried = 8;  // kernels, the heuristic's best first

struct Operand {
  std::int64_t rows = 1, columns = 1, leading = 1;  // as stored
  bool transposed = false;
};

// rows x columns with strides row and column.
std::optional<Operand> operand(std::int64_t rows, std::int64_t columns, std::int64_t row, std::int64_t column) {
  if ((row == 1 || rows == 1) && (column >= rows || columns == 1))
    return Operand{rows, columns, std::max(column, rows), false};
  if ((column == 1 || columns == 1) && (row >= columns || rows == 1))
    return Operand{columns, rows, std::max(row, columns), true};
  return std::nullopt;
}

struct BatchAxis {
  std::int64_t size, a, b, c;
};
// Merges batch axes where one stride continues the other. The library walks the last one, and the others are loops
// here.
std::vector<BatchAxis> batch_axes(const Matmul& product) {
  std::vector<BatchAxis> axes;
  for (std::size_t i = 0; i < product.batch.size(); ++i) {
    const BatchAxis axis{product.batch[i], product.a_batch[i], product.b_batch[i], product.c_batch[i]};
    if (axis.size == 1) continue;
    if (!axes.empty()) {
      BatchAxis& last = axes.back();
      if (last.a == axis.a * axis.size && last.b == axis.b * axis.size && last.c == axis.c * axis.size) {
        last = {last.size * axis.size, axis.a, axis.b, axis.c};
        continue;
      }
    }
    axes.push_back(axis);
  }
  return axes;
}

// A product in the terms of the library: result = left right, all stored by columns.
struct Request {
  Operand left, right, result;
  bool swapped = false;  // left is b
  BatchAxis strided{1, 0, 0, 0};
};

std::optional<Request> request_for(const Matmul& p) {
  if (p.m == 0 || p.n == 0 || p.k == 0) return std::nullopt;
  std::optional<Operand> a = operand(p.m, p.k, p.a_row, p.a_column), b = operand(p.k, p.n, p.b_row, p.b_column);
  std::optional<Operand> c = operand(p.m, p.n, p.c_row, p.c_column);
  // The library adds a bias to its columns, which are our rows.
  if (p.has_bias) c = Operand{p.n, p.m, std::max(p.c_row, p.n), true};
  if (!a || !b || !c) return std::nullopt;
  Request request{*a, *b, *c, false, {}};
  if (c->transposed) {
    request = {*b, *a, *c, true, {}};
    request.left.transposed = !request.left.transposed;
    request.right.transposed = !request.right.transposed;
    request.result.transposed = false;
  }
  return request;
}

using Key = std::array<std::int64_t, 24>;

// In what a product is computed.
struct Kind {
  DType dtype = DType::f32;  // of the operands
  bool is_wide = false, has_bias = false;
  Epilogue epilogue = Epilogue::none;
  bool adds = false;  // the product to what the result holds
  bool is_tf32 = false;
  bool has_aux() const { return epilogue == Epilogue::gelu_kept || epilogue == Epilogue::gelu_gradient; }
  DType result() const { return is_wide ? DType::f32 : dtype; }
};

// Kernels are timed on the memory of a run. The run then writes its result again.
struct Trial {
  DeviceState& device;
  const void *left, *right;
  void *result, *workspace;
  const Queue* queue;
};

// Descriptions are kept for the life of the process: as many as there are shapes.
struct Choice {
  BlasDescription* description = nullptr;
  BlasLayout *left = nullptr, *right = nullptr, *result = nullptr;
  BlasAlgorithm algorithm;
};

void set_bias(const Choice& choice, const void* bias) {
  check_blas(blas().cublasLtMatmulDescSetAttribute(choice.description, description_bias, &bias, sizeof bias), "bias");
}

void set_aux(const Choice& choice, const void* aux) {
  check_blas(blas().cublasLtMatmulDescSetAttribute(choice.description, description_aux, &aux, sizeof aux), "aux");
}

BlasLayout* make_layout(int type, const Operand& it, std::int64_t batches, std::int64_t stride) {
  BlasLayout* layout = nullptr;
  check_blas(blas().cublasLtMatrixLayoutCreate(&layout, type, static_cast<std::uint64_t>(it.rows),
                                               static_cast<std::uint64_t>(it.columns), it.leading),
             "cublasLtMatrixLayoutCreate");
  if (batches > 1) {
    const auto count = static_cast<std::int32_t>(batches);
    check_blas(blas().cublasLtMatrixLayoutSetAttribute(layout, layout_batch_count, &count, sizeof count),
               "batch count");
    check_blas(blas().cublasLtMatrixLayoutSetAttribute(layout, layout_batch_stride, &stride, sizeof stride),
               "batch stride");
  }
  return layout;
}

// Whether a bias may be in the library's epilogue, of memory that begins at multiples of 16 bytes. Where rows do not
// lie at such multiples, the library was found to round the product before it adds the bias.
bool adds_before_rounding(const Request& request, DType dtype) {
  const std::int64_t together = 16 / storage_bytes(dtype, 1);
  return std::ranges::all_of(std::array{request.left, request.right, request.result},
                             [&](const Operand& it) { return it.rows % together == 0 && it.leading % together == 0; });
}

// The bias in each column of the result, as the library thinks: in each of our rows. Each copy doubles what is there.
void fill(void* result, const Operand& columns, const void* bias, std::size_t element, const Queue* queue) {
  const auto place = reinterpret_cast<Pointer>(result);
  const std::size_t width = static_cast<std::size_t>(columns.rows) * element,
                    pitch = static_cast<std::size_t>(columns.leading) * element,
                    count = static_cast<std::size_t>(columns.columns);
  const auto copy = [&](std::size_t to, Pointer from, std::size_t rows) {
    if (rows == 1 || pitch == width)
      return check(driver().cuMemcpyDtoDAsync_v2(place + to * pitch, from, width * rows, queue->stream),
                   "cuMemcpyDtoDAsync");
    const CopiedRows all{.from = {.device = from, .pitch = pitch},
                         .to = {.device = place + to * pitch, .pitch = pitch},
                         .width = width,
                         .height = rows};
    check(driver().cuMemcpy2DAsync_v2(&all, queue->stream), "cuMemcpy2DAsync");
  };
  copy(0, reinterpret_cast<Pointer>(bias), 1);
  for (std::size_t done = 1; done < count; done *= 2) copy(done, place, std::min(done, count - done));
}

struct Library {
  std::mutex mutex;
  BlasHandle* handle = nullptr;
  std::array<std::atomic<Storage*>, most_lanes> workspaces{};
  std::map<Key, Choice> choices;

  static Library& of(const DeviceState& device) {
    static constinit PerDevice<Library> all;
    return all.of(device.device);
  }

  // Products that run side by side have a workspace each. They are never freed.
  void* workspace(const DeviceState& device, const Queue* queue) {
    std::atomic<Storage*>& of_lane = workspaces[device.lane_of(queue)];
    if (const Storage* known = of_lane.load(std::memory_order_acquire)) [[likely]]
      return known->data;
    const std::lock_guard lock(mutex);
    if (!of_lane.load(std::memory_order_relaxed))
      of_lane.store(allocate(device.device, workspace_bytes), std::memory_order_release);
    return of_lane.load(std::memory_order_relaxed)->data;
  }

  void open() {
    const std::lock_guard lock(mutex);
    open_locked();
  }

  // With the handle, which stays. `trial`: null where nothing is timed.
  const Choice& choose(const Key& key, Kind kind, const Request& request, std::uint32_t alignment, const void* bias,
                       const void* aux, const Trial* trial) {
    const std::lock_guard lock(mutex);
    auto [found, fresh] = choices.emplace(key, Choice());
    if (!fresh) return found->second;
    try {
      found->second = make(kind, request, alignment, bias, aux, key, trial);
    } catch (...) {
      choices.erase(found);
      throw;
    }
    return found->second;
  }

  std::atomic<bool> is_open = false;

 private:
  void open_locked() {
    if (handle) return;
    check_blas(blas().cublasLtCreate(&handle), "cublasLtCreate");
    is_open.store(true, std::memory_order_relaxed);
  }
  Choice make(Kind kind, const Request& request, std::uint32_t alignment, const void* bias, const void* aux,
              const Key& key, const Trial* trial) {
    open_locked();
    const bool wide = kind.dtype == DType::f64;
    const int type = type_of(kind.dtype);
    Choice choice;
    check_blas(blas().cublasLtMatmulDescCreate(&choice.description,
                                               wide           ? compute_f64
                                               : kind.is_tf32 ? compute_tf32
                                                              : compute_f32,
                                               wide ? type_f64 : type_f32),
               "cublasLtMatmulDescCreate");
    const std::int32_t left = request.left.transposed, right = request.right.transposed;  // CUBLAS_OP_N is 0, _T 1
    check_blas(blas().cublasLtMatmulDescSetAttribute(choice.description, description_transpose_a, &left, sizeof left),
               "transpose a");
    check_blas(blas().cublasLtMatmulDescSetAttribute(choice.description, description_transpose_b, &right, sizeof right),
               "transpose b");
    const std::uint32_t epilogue = number_of(kind.epilogue, kind.has_bias);
    check_blas(
        blas().cublasLtMatmulDescSetAttribute(choice.description, description_epilogue, &epilogue, sizeof epilogue),
        "epilogue");
    if (kind.has_bias) set_bias(choice, bias);
    if (kind.has_aux()) {
      check_blas(blas().cublasLtMatmulDescSetAttribute(choice.description, description_aux_leading,
                                                       &request.result.leading, sizeof request.result.leading),
                 "aux");
      set_aux(choice, aux);
    }
    const BatchAxis& batch = request.strided;
    choice.left = make_layout(type, request.left, batch.size, request.swapped ? batch.b : batch.a);
    choice.right = make_layout(type, request.right, batch.size, request.swapped ? batch.a : batch.b);
    choice.result = make_layout(type_of(kind.result()), request.result, batch.size, batch.c);
    BlasPreference* preference = nullptr;
    check_blas(blas().cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
    const std::uint64_t bytes = workspace_bytes;
    blas().cublasLtMatmulPreferenceSetAttribute(preference, preference_workspace, &bytes, sizeof bytes);
    blas().cublasLtMatmulPreferenceSetAttribute(preference, preference_reductions, &reduce_in_compute_type,
                                                sizeof reduce_in_compute_type);
    for (int i = 0; i < 4; ++i)
      blas().cublasLtMatmulPreferenceSetAttribute(preference, preference_alignment_a + i, &alignment, sizeof alignment);
    std::array<BlasHeuristic, most_tried> found{};
    int count = 0;
    const int status =
        blas().cublasLtMatmulAlgoGetHeuristic(handle, choice.description, choice.left, choice.right, choice.result,
                                              choice.result, preference, trial ? most_tried : 1, found.data(), &count);
    blas().cublasLtMatmulPreferenceDestroy(preference);
    check_blas(status != 0 ? status : count == 0 ? 15 : found[0].state, "cublasLtMatmulAlgoGetHeuristic");
    choice.algorithm = found[0].algorithm;
    if (trial && count > 1) choose_fastest(choice, kind, key, {found.data(), static_cast<std::size_t>(count)}, *trial);
    return choice;
  }

  void choose_fastest(Choice& choice, Kind kind, const Key& key, std::span<const BlasHeuristic> found,
                      const Trial& trial) const {
    const auto log = [&](const auto&... what) {
      if (logging::enabled(logging::Channel::kernels))
        logging::write(logging::Channel::kernels,
                       concat_text("cuBLASLt, ", info(kind.dtype).name, " [", key[7], ",", key[8], "] by [", key[11],
                                   ",", key[12], "], by columns: kernel ", what...));
    };
    FieldWriter question;
    question(key);
    const StoredAnswer stored("cuBLASLt kernel", blas().cublasLtGetVersion(), trial.device, question.bytes());
    if (const std::optional<std::string> answer = stored.load(); answer && answer->size() == sizeof choice.algorithm) {
      std::memcpy(&choice.algorithm, answer->data(), sizeof choice.algorithm);
      return log("found on disk");
    }
    const Fastest fastest = find_fastest(trial.device.device, found.size(), [&](std::size_t i) {
      choice.algorithm = found[i].algorithm;
      return found[i].state == 0 && multiply(trial.device, choice, kind, trial.left, trial.right, trial.result,
                                             trial.workspace, trial.queue) == 0;
    });
    choice.algorithm = found[fastest.place].algorithm;
    log(fastest.place + 1, " of ", found.size(), ", ", fastest.seconds * 1e6, " us; the first ",
        fastest.seconds_of_first * 1e6);
    stored.store({reinterpret_cast<const char*>(&choice.algorithm), sizeof choice.algorithm});
  }

 public:
  // A product may be several kernels, which hand each other parts of sums in the workspace of all.
  int multiply(DeviceState& device, const Choice& choice, Kind kind, const void* left, const void* right, void* result,
               void* workspace, const Queue* queue) const {
    const std::lock_guard lock(device.in_one_piece);
    const double one = 1, zero = 0;
    const float one_f32 = 1, zero_f32 = 0;
    const bool wide = kind.dtype == DType::f64;
    const void* alpha = wide ? static_cast<const void*>(&one) : &one_f32;
    const void* beta = kind.adds ? alpha : wide ? static_cast<const void*>(&zero) : &zero_f32;
    return blas().cublasLtMatmul(handle, choice.description, alpha, left, choice.left, right, choice.right, beta,
                                 result, choice.result, result, choice.result, &choice.algorithm, workspace,
                                 workspace_bytes, queue->stream);
  }
};

std::uint32_t alignment_of(const void* a, const void* b, const void* bias, const void* c, std::size_t element) {
  std::uintptr_t bits = 0;
  for (const void* each : {a, b, bias, c}) bits |= reinterpret_cast<std::uintptr_t>(each);
  return bits % 16 == 0 ? 16 : static_cast<std::uint32_t>(element);
}

}  // namespace

bool has_product_library() {
  constexpr int without_library = 3;
  return options().own_kernels < without_library && blas_available();
}
void open_products(Device device) { Library::of(use(device)).open(); }
BlasHandle* product_handle(DeviceState& device) {
  Library& library = Library::of(device);
  library.open();
  return library.handle;
}
void* product_workspace(DeviceState& device, const Queue* queue) {
  return Library::of(device).workspace(device, queue);
}
bool products_are_open(Device device) { return Library::of(use(device)).is_open.load(std::memory_order_relaxed); }

std::optional<Matmul> known_product(const Contraction& c) {
  const Dim all[] = {c.m, c.n, c.k, c.a_row, c.a_column, c.b_row, c.b_column, c.c_row, c.c_column};
  std::int64_t known[std::size(all)];
  for (std::size_t i = 0; i < std::size(all); ++i) {
    if (!all[i].is_constant()) return std::nullopt;
    known[i] = all[i].constant();
  }
  return Matmul{.dtype = c.dtype,
                .m = known[0],
                .n = known[1],
                .k = known[2],
                .a_row = known[3],
                .a_column = known[4],
                .b_row = known[5],
                .b_column = known[6],
                .c_row = known[7],
                .c_column = known[8],
                .is_wide = c.is_wide,
                .has_bias = c.has_bias,
                .is_tf32 = c.is_tf32};
}
bool library_takes(const Contraction& c) {
  const std::optional<Matmul> product = known_product(c);
  return product && request_for(*product).has_value();
}

struct LibraryProduct::Call {
  DeviceState& device;
  Kind kind;
  bool empty = false;
  bool measures = false;
  Request request;
  std::vector<BatchAxis> walked;  // batch axes that are calls of their own
  bool fuses_bias = true;         // where memory begins at multiples of 16 bytes
  std::atomic<const Choice*> aligned{nullptr}, unaligned{nullptr};

  // A bias is added before the sum is rounded: in an epilogue, or by a product that is added to it.
  Kind kind_for(std::uint32_t alignment) const {
    Kind made = kind;
    if (kind.has_bias && kind.epilogue == Epilogue::none && (alignment != 16 || !fuses_bias))
      made.has_bias = false, made.adds = true;
    return made;
  }

  const Choice& choose(std::uint32_t alignment, Kind asked, const void* bias, const void* aux, const Trial& trial) {
    std::atomic<const Choice*>& kept = alignment == 16 ? aligned : unaligned;
    if (const Choice* known = kept.load(std::memory_order_acquire)) [[likely]]
      return *known;
    const Request& r = request;
    const bool tries = measures && !device.is_recorded(trial.queue);
    const Key key{static_cast<std::int64_t>(asked.dtype),
                  asked.is_wide,
                  asked.has_bias,
                  static_cast<std::int64_t>(asked.epilogue),
                  tries,
                  alignment,
                  r.swapped,
                  r.left.rows,
                  r.left.columns,
                  r.left.leading,
                  r.left.transposed,
                  r.right.rows,
                  r.right.columns,
                  r.right.leading,
                  r.right.transposed,
                  r.result.rows,
                  r.result.columns,
                  r.result.leading,
                  r.strided.size,
                  r.strided.a,
                  r.strided.b,
                  r.strided.c,
                  asked.adds,
                  asked.is_tf32};
    const Choice& choice = Library::of(device).choose(key, asked, r, alignment, bias, aux, tries ? &trial : nullptr);
    kept.store(&choice, std::memory_order_release);
    return choice;
  }
};

LibraryProduct::LibraryProduct(std::unique_ptr<Call> call) : call_(std::move(call)) {}
LibraryProduct::LibraryProduct(LibraryProduct&&) noexcept = default;
LibraryProduct& LibraryProduct::operator=(LibraryProduct&&) noexcept = default;
LibraryProduct::~LibraryProduct() = default;

std::optional<LibraryProduct> LibraryProduct::make(DeviceState& device, const Matmul& product, bool measures,
                                                   Epilogue epilogue) {
  auto call = std::unique_ptr<Call>(
      new Call{device,
               {product.dtype, product.is_wide, product.has_bias, epilogue, false, product.is_tf32},
               false,
               measures,
               {},
               {}});
  call->empty = std::find(product.batch.begin(), product.batch.end(), 0) != product.batch.end();
  if (call->empty) return LibraryProduct(std::move(call));
  const std::optional<Request> request = request_for(product);
  if (!request) return std::nullopt;
  call->request = *request;
  call->fuses_bias = adds_before_rounding(*request, product.dtype);
  call->walked = batch_axes(product);
  if (!call->walked.empty()) {
    call->request.strided = call->walked.back();
    call->walked.pop_back();
  }
  return LibraryProduct(std::move(call));
}

void LibraryProduct::run(const void* a, const void* b, const void* bias, void* c, const Queue* queue,
                         const void* aux) const {
  Call& call = *call_;
  if (call.empty) return;
  const Request& r = call.request;
  const std::vector<BatchAxis>& axes = call.walked;
  const std::size_t element = storage_bytes(call.kind.dtype, 1), result_element = storage_bytes(call.kind.result(), 1);
  const std::uint32_t alignment =
      axes.empty() ? alignment_of(a, b, bias, c, element) : static_cast<std::uint32_t>(element);
  Library& library = Library::of(call.device);
  void* const workspace = library.workspace(call.device, queue);
  const Kind kind = call.kind_for(alignment);
  const Choice& choice =
      call.choose(alignment, kind, bias, aux, {call.device, r.swapped ? b : a, r.swapped ? a : b, c, workspace, queue});
  if (kind.adds) fill(c, r.result, bias, element, queue);
  // The description is shared by all products of its shape, and holds the bias and what an epilogue reads or keeps.
  std::unique_lock<std::mutex> lock;
  if (kind.has_bias || kind.has_aux()) lock = std::unique_lock(library.mutex);
  if (kind.has_bias) set_bias(choice, bias);
  if (kind.has_aux()) set_aux(choice, aux);
  std::int64_t batches = 1;
  for (const BatchAxis& axis : axes) batches *= axis.size;
  for (std::int64_t batch = 0; batch < batches; ++batch) {
    std::int64_t left = batch, a_at = 0, b_at = 0, c_at = 0;
    for (std::size_t i = axes.size(); i-- > 0;) {
      const std::int64_t at = left % axes[i].size;
      left /= axes[i].size;
      a_at += at * axes[i].a;
      b_at += at * axes[i].b;
      c_at += at * axes[i].c;
    }
    const auto bytes = [](std::int64_t elements, std::size_t size) {
      return elements * static_cast<std::int64_t>(size);
    };
    const void* a_batch = static_cast<const std::byte*>(a) + bytes(a_at, element);
    const void* b_batch = static_cast<const std::byte*>(b) + bytes(b_at, element);
    void* c_batch = static_cast<std::byte*>(c) + bytes(c_at, result_element);
    check_blas(library.multiply(call.device, choice, kind, r.swapped ? b_batch : a_batch, r.swapped ? a_batch : b_batch,
                                c_batch, workspace, queue),
               "cublasLtMatmul");
  }
}

}  // namespace weft::runtime::cuda
