#include "runtime/cuda/factorization.hpp"

#include <algorithm>
#include <limits>

#include "base/fail.hpp"
#include "runtime/cuda/per_device.hpp"

namespace weft::runtime::cuda {

namespace {

constexpr int threads = 256;

// Numbers of cublas_api.h and library_types.h.
constexpr int right_side = 1, lower = 0, upper = 1, type_f32 = 0, type_f64 = 1;

// Numbers of weft/detail/cuda_steps.inc.
constexpr std::int64_t task_move = 0, task_point = 1, task_order = 2, task_find_sizes = 3, task_scale = 4;
enum class Part : std::int64_t { all = 0, lower = 1, upper = 2 };

// The largest matrices that the library is given as a batch: beyond them LU is faster one by one (measured on an H200),
// and the batched SVD takes none.
constexpr std::int64_t most_rows_of_batched_lu = 256, most_rows_of_batched_svd = 32;
// What the library has one matrix at a time only is faster on the host for more than a few small ones, whose threads
// take one each (measured on an H200 beside 16 cores).
constexpr std::int64_t few_matrices = 4, most_rows_on_host = 256;
// The library's workspace for a batch of eigenvalues is large: so many matrices have it at a time.
constexpr std::int64_t most_eigenvalue_problems = 1024;

// Of a device. They stay.
struct Handles {
  std::mutex mutex;
  SolverHandle* solver = nullptr;
  SolverBlas* blas = nullptr;
  SolverOptions* options = nullptr;
  JacobiOptions* jacobi = nullptr;

  static Handles& of(const DeviceState& device) {
    static constinit PerDevice<Handles> all;
    Handles& handles = all.of(device.device);
    const std::lock_guard lock(handles.mutex);
    if (!handles.jacobi) handles.open(cuda::solver());
    return handles;
  }

 private:
  void open(const Solver& library) {
    if (!solver) check_solver(library.cusolverDnCreate(&solver), "cusolverDnCreate");
    if (!blas) check_blas(library.cublasCreate_v2(&blas), "cublasCreate");
    if (!options) check_solver(library.cusolverDnCreateParams(&options), "cusolverDnCreateParams");
    check_solver(library.cusolverDnCreateGesvdjInfo(&jacobi), "cusolverDnCreateGesvdjInfo");
  }
};

// The distances of neighbouring rows, columns and matrices.
struct Layout {
  std::int64_t row, column, matrix;
};
Layout by_rows(std::int64_t rows, std::int64_t columns) { return {columns, 1, rows * columns}; }
Layout by_columns(std::int64_t rows, std::int64_t columns) { return {1, rows, rows * columns}; }

// The library's singular values of a batch are right for square matrices only.
bool is_together(std::int64_t batch, std::int64_t rows, std::int64_t columns) {
  return batch > 1 && rows == columns && rows <= most_rows_of_batched_svd;
}

}  // namespace

// A run, or without memory the question how much of it one takes: each function takes its memory first.
class DeviceFactorization::Run {
 public:
  Run(const DeviceFactorization& step, const FactorizationSizes<std::int64_t>& sizes, const StepCall* call)
      : step_(step),
        call_(call),
        handles_(Handles::of(step.device_)),
        library_(solver()),
        wide_(step.what_.dtype == DType::f64),
        element_(wide_ ? sizeof(double) : sizeof(float)),
        batch_(sizes.batch),
        m_(sizes.rows),
        n_(sizes.columns),
        k_(std::min(m_, n_)),
        sides_(sizes.sides),
        lock_(handles_.mutex) {
    if (!call_) return;
    check_solver(library_.cusolverDnSetStream(handles_.solver, call_->queue->stream), "cusolverDnSetStream");
    check_blas(library_.cublasSetStream_v2(handles_.blas, call_->queue->stream), "cublasSetStream");
  }

  std::size_t run() {
    switch (step_.what_.kind) {
      case Factorization::Kind::cholesky: cholesky(); break;
      case Factorization::Kind::triangular_solve: triangular_solve(); break;
      case Factorization::Kind::lu: lu(); break;
      case Factorization::Kind::qr: qr(); break;
      case Factorization::Kind::eigh: eigh(); break;
      default: svd(); break;
    }
    return taken_;
  }

 private:
  // The operand's lower triangle is the upper one of the same memory by columns, and so is the factor's.
  void cholesky() {
    int* const failed = words(batch_);
    void* const pointers = batch_ > 1 ? take(batch_ * sizeof(void*)) : nullptr;
    int length = 0;
    if (batch_ == 1)
      check_solver(library_.potrf_bufferSize[wide_](handles_.solver, upper, size(n_), nullptr, size(n_), &length),
                   "potrf_bufferSize");
    void* const work = elements(length);
    if (!call_) return;
    void* const factor = buffer(1);
    clear(failed);
    move(buffer(0), factor, n_, n_, by_rows(n_, n_), by_rows(n_, n_), Part::lower);
    if (batch_ == 1) {
      check_solver(library_.potrf[wide_](handles_.solver, upper, size(n_), factor, size(n_), work, length, failed),
                   "potrf");
    } else {
      point(pointers, factor, n_ * n_);
      check_solver(library_.potrfBatched[wide_](handles_.solver, upper, size(n_), batch(pointers), size(n_), failed,
                                                size(batch_)),
                   "potrfBatched");
    }
    move_out(factor, factor, n_, n_, by_rows(n_, n_), by_rows(n_, n_), failed, failed, Part::lower);
  }

  // By columns A and B are their transposes, and X^T A^T = B^T.
  void triangular_solve() {
    void *const a = batch_ > 1 ? take(batch_ * sizeof(void*)) : nullptr, *const b = batch_ > 1
                                                                                        ? take(batch_ * sizeof(void*))
                                                                                        : nullptr;
    if (!call_) return;
    void* const x = buffer(2);
    move(buffer(1), x, n_, sides_, by_rows(n_, sides_), by_rows(n_, sides_), Part::all);
    const int triangle = step_.what_.upper ? lower : upper;
    const double one = 1;
    const float one_f32 = 1;
    const void* const factor = wide_ ? static_cast<const void*>(&one) : &one_f32;
    if (batch_ == 1) {
      check_blas(library_.trsm[wide_](handles_.blas, right_side, triangle, step_.what_.transposed, step_.what_.unit,
                                      size(sides_), size(n_), factor, buffer(0), size(n_), x, size(sides_)),
                 "trsm");
      return;
    }
    point(a, buffer(0), n_ * n_);
    point(b, x, n_ * sides_);
    check_blas(library_.trsmBatched[wide_](handles_.blas, right_side, triangle, step_.what_.transposed,
                                           step_.what_.unit, size(sides_), size(n_), factor, batch(a), size(n_),
                                           batch(b), size(sides_), size(batch_)),
               "trsmBatched");
  }

  void lu() {
    const bool together = batch_ > 1 && n_ <= most_rows_of_batched_lu;
    void* const factors = elements(batch_ * n_ * n_);
    int *const exchanged = words(batch_ * n_), *const failed = words(batch_);
    void* const pointers = together ? take(batch_ * sizeof(void*)) : nullptr;
    int length = 0;
    if (!together)
      check_solver(library_.getrf_bufferSize[wide_](handles_.solver, size(n_), size(n_), nullptr, size(n_), &length),
                   "getrf_bufferSize");
    void* const work = elements(length);
    if (!call_) return;
    move(buffer(0), factors, n_, n_, by_rows(n_, n_), by_columns(n_, n_), Part::all);
    if (together) {
      point(pointers, factors, n_ * n_);
      check_blas(library_.getrfBatched[wide_](handles_.blas, size(n_), batch(pointers), size(n_), exchanged, failed,
                                              size(batch_)),
                 "getrfBatched");
    } else {
      for (std::int64_t i = 0; i < batch_; ++i)
        check_solver(library_.getrf[wide_](handles_.solver, size(n_), size(n_), at(factors, i * n_ * n_), size(n_),
                                           work, exchanged + i * n_, failed + i),
                     "getrf");
    }
    move(factors, buffer(1), n_, n_, by_columns(n_, n_), by_rows(n_, n_), Part::all);
    start({exchanged, buffer(2)}, {task_order, batch_, n_}, batch_);
  }

  // Columns are scaled by powers of two, so that squares of their elements neither underflow nor overflow. Q does not
  // depend on the lengths of columns, and those of R go back exactly.
  void qr() {
    void *const factors = elements(batch_ * m_ * n_), *const scales = elements(batch_ * k_),
                *const column_sizes = elements(batch_ * n_);
    int* const failed = words(batch_);
    int factoring = 0, forming = 0;
    check_solver(library_.geqrf_bufferSize[wide_](handles_.solver, size(m_), size(n_), nullptr, size(m_), &factoring),
                 "geqrf_bufferSize");
    check_solver(library_.orgqr_bufferSize[wide_](handles_.solver, size(m_), size(k_), size(k_), nullptr, size(m_),
                                                  nullptr, &forming),
                 "orgqr_bufferSize");
    void* const work = elements(std::max(factoring, forming));
    if (!call_) return;
    move(buffer(0), factors, m_, n_, by_rows(m_, n_), by_columns(m_, n_), Part::all);
    clear(static_cast<int*>(column_sizes), batch_ * n_ * element_ / static_cast<std::int64_t>(sizeof(int)));
    start({buffer(0), column_sizes}, {task_find_sizes, batch_, m_, n_}, batch_ * n_ * ((m_ + 63) / 64));
    scale(factors, column_sizes, m_, by_columns(m_, n_), false);
    for (std::int64_t i = 0; i < batch_; ++i)
      check_solver(library_.geqrf[wide_](handles_.solver, size(m_), size(n_), at(factors, i * m_ * n_), size(m_),
                                         at(scales, i * k_), work, factoring, failed + i),
                   "geqrf");
    move(factors, buffer(2), k_, n_, by_columns(m_, n_), by_rows(k_, n_), Part::upper);
    scale(buffer(2), column_sizes, k_, by_rows(k_, n_), true);
    for (std::int64_t i = 0; i < batch_; ++i)
      check_solver(library_.orgqr[wide_](handles_.solver, size(m_), size(k_), size(k_), at(factors, i * m_ * n_),
                                         size(m_), at(scales, i * k_), work, forming, failed + i),
                   "orgqr");
    move(factors, buffer(1), m_, k_, by_columns(m_, n_), by_rows(m_, k_), Part::all);
  }

  void eigh() {
    const std::int64_t together = std::min(batch_, most_eigenvalue_problems);
    const int type = wide_ ? type_f64 : type_f32, vectors = step_.what_.vectors;
    void *const matrices = elements(batch_ * n_ * n_), *const values = elements(batch_ * n_);
    int *const unusable = words(batch_), *const failed = words(batch_);
    std::size_t bytes = 0, host_bytes = 0;
    const auto ask = [&](std::int64_t count) {
      check_solver(
          library_.cusolverDnXsyevBatched_bufferSize(handles_.solver, handles_.options, vectors, upper, n_, type,
                                                     matrices, n_, type, values, type, &bytes, &host_bytes, count),
          "XsyevBatched_bufferSize");
    };
    ask(together);
    const std::size_t most = bytes;
    void* const work = take(static_cast<std::int64_t>(most));
    if (!call_) return;
    clear(unusable);
    clear(failed);
    move_in(buffer(0), matrices, n_, n_, by_rows(n_, n_), by_rows(n_, n_), unusable, Part::lower);
    std::vector<std::byte> on_host;
    for (std::int64_t i = 0; i < batch_; i += together) {
      const std::int64_t count = std::min(together, batch_ - i);
      if (count != together) {
        ask(count);
        WEFT_CHECK(bytes <= most);
      }
      on_host.resize(host_bytes);
      check_solver(library_.cusolverDnXsyevBatched(handles_.solver, handles_.options, vectors, upper, n_, type,
                                                   at(matrices, i * n_ * n_), n_, type, at(values, i * n_), type, work,
                                                   bytes, on_host.data(), host_bytes, failed + i, count),
                   "XsyevBatched");
    }
    move_out(values, buffer(1), 1, n_, by_rows(1, n_), by_rows(1, n_), unusable, failed, Part::all);
    if (vectors)
      move_out(matrices, buffer(2), n_, n_, by_columns(n_, n_), by_rows(n_, n_), unusable, failed, Part::all);
  }

  // By columns A is its transpose V S U^T: what the library calls the left vectors are the right ones.
  void svd() {
    const bool together = is_together(batch_, m_, n_), wanted = step_.what_.vectors;
    // The library's batches are right with vectors only, and it wants memory for those that it is not asked for.
    const bool vectors = wanted || together;
    const std::int64_t left = step_.what_.full ? m_ : k_, right = step_.what_.full ? n_ : k_;
    void *const matrices = elements(batch_ * m_ * n_), *const values = elements(batch_ * k_),
                *const v = elements(batch_ * n_ * right), *const u = elements(batch_ * m_ * left);
    int *const unusable = words(batch_), *const failed = words(batch_);
    const int thin = !step_.what_.full;
    int length = 0;
    if (together)
      check_solver(library_.gesvdjBatched_bufferSize[wide_](handles_.solver, vectors, size(n_), size(m_), matrices,
                                                            size(n_), values, v, size(n_), u, size(m_), &length,
                                                            handles_.jacobi, size(batch_)),
                   "gesvdjBatched_bufferSize");
    else
      check_solver(
          library_.gesvdj_bufferSize[wide_](handles_.solver, vectors, thin, size(n_), size(m_), matrices, size(n_),
                                            values, v, size(n_), u, size(m_), &length, handles_.jacobi),
          "gesvdj_bufferSize");
    void* const work = elements(length);
    if (!call_) return;
    clear(unusable);
    clear(failed);
    move_in(buffer(0), matrices, m_, n_, by_rows(m_, n_), by_rows(m_, n_), unusable, Part::all);
    if (together)
      check_solver(
          library_.gesvdjBatched[wide_](handles_.solver, vectors, size(n_), size(m_), matrices, size(n_), values, v,
                                        size(n_), u, size(m_), work, length, failed, handles_.jacobi, size(batch_)),
          "gesvdjBatched");
    else
      for (std::int64_t i = 0; i < batch_; ++i)
        check_solver(
            library_.gesvdj[wide_](handles_.solver, vectors, thin, size(n_), size(m_), at(matrices, i * m_ * n_),
                                   size(n_), at(values, i * k_), at(v, i * n_ * right), size(n_), at(u, i * m_ * left),
                                   size(m_), work, length, failed + i, handles_.jacobi),
            "gesvdj");
    move_out(values, buffer(1), 1, k_, by_rows(1, k_), by_rows(1, k_), unusable, failed, Part::all);
    if (!wanted) return;
    move_out(u, buffer(2), m_, left, by_columns(m_, left), by_rows(m_, left), unusable, failed, Part::all);
    move_out(v, buffer(3), right, n_, by_rows(right, n_), by_rows(right, n_), unusable, failed, Part::all);
  }

  void* buffer(std::size_t i) const { return call_->pointers[i]; }
  static int size(std::int64_t n) { return static_cast<int>(n); }  // is_for_host has looked
  static void* const* batch(void* pointers) { return static_cast<void* const*>(pointers); }
  void* at(void* elements, std::int64_t i) const {
    return call_ ? static_cast<std::byte*>(elements) + i * element_ : nullptr;
  }

  void* take(std::int64_t bytes) {
    const std::size_t begin = taken_;
    taken_ += (static_cast<std::size_t>(bytes) + 255) / 256 * 256;
    return call_ ? call_->workspace.data() + begin : nullptr;
  }
  void* elements(std::int64_t count) { return take(count * element_); }
  int* words(std::int64_t count) { return static_cast<int*>(take(count * static_cast<std::int64_t>(sizeof(int)))); }

  void clear(int* words) const { clear(words, batch_); }  // a word for each matrix
  void clear(int* words, std::int64_t count) const {
    check(driver().cuMemsetD32Async(reinterpret_cast<Pointer>(words), 0, static_cast<std::size_t>(count),
                                    call_->queue->stream),
          "cuMemsetD32Async");
  }

  void start(std::initializer_list<void*> buffers, std::initializer_list<std::int64_t> numbers,
             std::int64_t work) const {
    void* all_buffers[4] = {};
    std::int64_t all_numbers[13] = {};
    std::copy(buffers.begin(), buffers.end(), all_buffers);
    std::copy(numbers.begin(), numbers.end(), all_numbers);
    step_.function_.launch_buffers({.queue = call_->queue, .x = (work + threads - 1) / threads}, all_buffers,
                                   all_numbers);
  }
  void point(void* pointers, void* matrices, std::int64_t elements) const {
    start({matrices, pointers}, {task_point, batch_, elements}, batch_);
  }
  void move(void* from, void* to, std::int64_t rows, std::int64_t columns, Layout source, Layout target, Part part,
            int* unusable = nullptr, int* failed = nullptr, bool checked = false, bool hidden = false) const {
    start({from, to, unusable, failed},
          {task_move, batch_, rows, columns, source.row, source.column, source.matrix, target.row, target.column,
           target.matrix, static_cast<std::int64_t>(part), checked, hidden},
          batch_ * rows * columns);
  }
  // The columns of matrices [rows, n] times a power of two, or back.
  void scale(void* matrices, void* column_sizes, std::int64_t rows, Layout layout, bool back) const {
    start({matrices, column_sizes}, {task_scale, batch_, rows, n_, layout.row, layout.column, layout.matrix, back},
          batch_ * rows * n_);
  }
  // The library gets finite numbers; matrices with others are marked.
  void move_in(void* from, void* to, std::int64_t rows, std::int64_t columns, Layout source, Layout target,
               int* unusable, Part part) const {
    move(from, to, rows, columns, source, target, part, unusable, nullptr, true, false);
  }
  // What has no factors gives NaN.
  void move_out(void* from, void* to, std::int64_t rows, std::int64_t columns, Layout source, Layout target,
                int* unusable, int* failed, Part part) const {
    move(from, to, rows, columns, source, target, part, unusable, failed, false, true);
  }

  const DeviceFactorization& step_;
  const StepCall* call_;  // null where memory is asked for
  Handles& handles_;
  const Solver& library_;
  bool wide_;
  std::int64_t element_, batch_, m_, n_, k_, sides_;
  std::size_t taken_ = 0;
  std::lock_guard<std::mutex> lock_;  // a handle has one stream
};

DeviceFactorization::DeviceFactorization(const Factorization& what, const FactorizationSizes<Dim>& sizes,
                                         std::span<const Dim> bytes, std::size_t operands,
                                         const Preparation& preparation)
    : device_(use(preparation.device)),
      function_(preparation, threads),
      what_(what),
      sizes_(preparation.numbers.add({sizes.batch, sizes.rows, sizes.columns, sizes.sides})),
      on_host_(what, sizes, bytes, operands, preparation) {}

FactorizationSizes<std::int64_t> DeviceFactorization::sizes_of(std::span<const std::int64_t> numbers) const {
  const std::int64_t* const size = numbers.data() + sizes_.begin;
  return {size[0], size[1], size[2], size[3]};
}

bool DeviceFactorization::is_for_host(const FactorizationSizes<std::int64_t>& sizes) const {
  constexpr std::int64_t most = std::numeric_limits<int>::max();
  const auto [batch, rows, columns, sides] = sizes;
  if (std::min({batch, rows, columns, sides}) == 0 || std::max({batch, rows, columns, sides}) > most) return true;
  const bool one_by_one = what_.kind == Factorization::Kind::qr ||
                          (what_.kind == Factorization::Kind::svd && !is_together(batch, rows, columns));
  return one_by_one && batch > few_matrices && std::min(rows, columns) <= most_rows_on_host;
}

std::size_t DeviceFactorization::workspace(std::span<const std::int64_t> numbers) const {
  const FactorizationSizes<std::int64_t> sizes = sizes_of(numbers);
  if (is_for_host(sizes)) return 0;
  use(device_.device);
  return Run(*this, sizes, nullptr).run();
}

void DeviceFactorization::run(const StepCall& call) const {
  const FactorizationSizes<std::int64_t> sizes = sizes_of(call.numbers);
  if (is_for_host(sizes)) return on_host_.run(call);
  use(device_.device);
  Run(*this, sizes, &call).run();
}

}  // namespace weft::runtime::cuda
