// What the status of a library is thrown as: no library and no device are needed.
#include "runtime/cuda/libraries.hpp"

#include <doctest/doctest.h>

using namespace weft;
using namespace weft::runtime::cuda;

TEST_CASE("a kernel that cuBLAS does not have is told apart from work that failed") {
  CHECK_NOTHROW(check_blas(0, "cublasLtMatmul"));
  for (const int status : {7, 8, 15}) {  // of the request: an invalid value, another architecture, not supported
    CAPTURE(status);
    CHECK_THROWS_AS(check_blas(status, "cublasLtMatmul"), NoLibraryKernel);
  }
  CHECK_THROWS_AS(check_blas(3, "cublasLtMatmul"), OutOfMemory);
  for (const int status : {1, 11, 13, 14}) {  // of the device, also of an earlier kernel
    CAPTURE(status);
    CHECK_THROWS_WITH_AS(check_blas(status, "cublasLtMatmul"),
                         ("[cuda] cublasLtMatmul: cuBLAS's status " + std::to_string(status)).c_str(), Error);
    try {
      check_blas(status, "cublasLtMatmul");
    } catch (const NoLibraryKernel&) {
      FAIL("taken for a kernel that is not there");
    } catch (const Error&) {
    }
  }
}
