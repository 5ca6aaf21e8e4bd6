#include "base/options.hpp"

#include <doctest/doctest.h>

#include "tests/runtime/support.hpp"

using weft::read_options;
using weft::test::CaptureLog;
using weft::test::KeepVariable;

TEST_CASE("options come from the environment") {
  const KeepVariable folder("WEFT_CACHE_DIR", "/somewhere"), cache("WEFT_CACHE", "0"), compiler("WEFT_CXX", "clang++");
  const KeepVariable timeout("WEFT_COMPILE_TIMEOUT", "2.5"), isa("WEFT_ISA", "avx2"), threads("WEFT_NUM_THREADS", "3");
  const KeepVariable optimization("WEFT_KERNEL_OPTIMIZATION", "1"), nvrtc("WEFT_NVRTC_CHECK", "1");
  const KeepVariable raise("WEFT_RAISE_COMPILE_ERRORS", "1");
  const KeepVariable onednn("WEFT_ONEDNN", "0"), cblas("WEFT_CBLAS", "1");
  const KeepVariable cuda_graphs("WEFT_CUDA_GRAPHS", "0");
  const KeepVariable dependent_launch("WEFT_CUDA_DEPENDENT_LAUNCH", "0");
  const KeepVariable memory("WEFT_MEMORY_LIMIT", "5000000000"), cuda_memory("WEFT_CUDA_MEMORY_LIMIT", "6000000000");
  const KeepVariable passes("WEFT_SKIP_PASSES", "dead_code,,fold_constants");
  const weft::ProcessOptions options = read_options();
  CHECK(options.cache_directory == "/somewhere");
  CHECK_FALSE(options.cache);
  CHECK(options.compiler == "clang++");
  CHECK(options.compile_timeout == 2.5);
  CHECK(options.isa == "avx2");
  CHECK(options.num_threads == 3);
  CHECK(options.memory_limit == 5000000000);
  CHECK(options.cuda_memory_limit == 6000000000);
  CHECK(options.kernel_optimization == 1);
  CHECK(options.nvrtc_check);
  CHECK(options.raise_compile_errors);
  CHECK_FALSE(options.onednn);
  CHECK(options.cblas == 1);
  CHECK_FALSE(options.cuda_graphs);
  CHECK_FALSE(options.cuda_dependent_launch);
  CHECK(options.skip_passes == std::vector<std::string>{"dead_code", "fold_constants"});
}

TEST_CASE("a value that makes no sense is warned about and ignored") {
  const KeepVariable deadline("WEFT_COMPILE_TIMEOUT", nullptr);  // tools/test has one where a sanitizer is
  const weft::ProcessOptions usual;
  for (const auto& [name, value] : {std::pair{"WEFT_COMPILE_TIMEOUT", "soon"},
                                    {"WEFT_COMPILE_TIMEOUT", "-1"},
                                    {"WEFT_NUM_THREADS", "2x"},
                                    {"WEFT_NUM_THREADS", "99999999999999999999"},
                                    {"WEFT_MEMORY_LIMIT", "0"},
                                    {"WEFT_MEMORY_LIMIT", "64G"},
                                    {"WEFT_CUDA_MEMORY_LIMIT", "-1"},
                                    {"WEFT_ISA", "avx1024"},
                                    {"WEFT_KERNEL_OPTIMIZATION", "4"},
                                    {"WEFT_NVRTC_CHECK", "2"},
                                    {"WEFT_ONEDNN", "no"},
                                    {"WEFT_CBLAS", "-1"},
                                    {"WEFT_CUDA_GRAPHS", "2"},
                                    {"WEFT_CACHE", "yes"}}) {
    CAPTURE(name);
    CAPTURE(value);
    CaptureLog capture;
    const KeepVariable variable(name, value);
    const weft::ProcessOptions options = read_options();
    CHECK(options.compile_timeout == usual.compile_timeout);
    CHECK(options.num_threads == usual.num_threads);
    CHECK(options.memory_limit == usual.memory_limit);
    CHECK(options.isa == usual.isa);
    CHECK(options.kernel_optimization == usual.kernel_optimization);
    CHECK_FALSE(options.nvrtc_check);
    CHECK(options.onednn);
    CHECK(options.cblas == usual.cblas);
    CHECK(options.cuda_graphs);
    CHECK(options.cache);
    CHECK(capture.count(weft::concat_text(name, "='", value, "'")) == 1);
  }
}
