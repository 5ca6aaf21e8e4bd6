// A CBLAS library, found by dlopen at the first use: nothing links it, none of its headers is needed, and the same
// binary runs where none is there. Taken is one whose integers have 32 bits and that can be held to one thread a call,
// without changing what other users of it in this process get: OpenBLAS on OpenMP, OpenBLAS and BLIS without threads of
// their own, and MKL. OpenBLAS with threads of its own has but one number of them for the whole process:
// openblas_set_num_threads_local sets that as well.
#pragma once
#include <memory>
#include <string>

#include "base/fork.hpp"

namespace weft::runtime::cblas {

struct Library {
  // Numbers of CBLAS.
  static constexpr int row_major = 101, as_it_is = 111, transposed = 112;
  template <class T>
  using Gemm = void (*)(int order, int transpose_a, int transpose_b, int m, int n, int k, T alpha, const T* a,
                        int a_step, const T* b, int b_step, T beta, T* c, int c_step);
  Gemm<float> sgemm = nullptr;
  Gemm<double> dgemm = nullptr;
  // Threads of what the calling thread asks for. MKL's gives what was set before; null: there is always one.
  int (*get_threads)() = nullptr;
  void (*set_threads)(int count) = nullptr;
  int (*exchange_threads)(int count) = nullptr;
  std::string name;          // "OpenBLAS 0.3.21"
  bool is_measured = false;  // its speed is known (docs/decisions/0007)
};

// Null where none is found that can be used, where WEFT_CBLAS=0 says not to look, and where WEFT_ISA narrows the
// instructions, since the library chooses its own. Else it stays loaded.
const Library* library();
// Whether this process has asked for it; and what there is, as far as plans depend on it: "none" where there is none.
bool was_asked();
std::string identity();
// The library in the file of that name; null where it can't be used.
std::shared_ptr<const Library> load(const char* file);

// A call of the library: on one thread, and whole before the process forks.
class Call {
 public:
  explicit Call(const Library& library);
  ~Call();
  Call(const Call&) = delete;

 private:
  const NotForking not_forking_;
  const Library& library_;
  int before_ = 0;
};

}  // namespace weft::runtime::cblas
