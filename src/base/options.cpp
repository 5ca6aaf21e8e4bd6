#include "base/options.hpp"

#include <locale.h>

#include <algorithm>
#include <charconv>
#include <concepts>
#include <cstdlib>
#include <string_view>

#include "base/lazy.hpp"
#include "base/log.hpp"

namespace weft {

namespace {

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// Where the number ends; null: it is none.
template <std::integral T>
const char* parse(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() ? end : nullptr;
}
// As std::from_chars, which is 25 kB for floats. `text` ends with a zero: it is a variable's.
const char* parse(std::string_view text, double& value) {
  if (text[0] != '.' && (text[0] < '0' || text[0] > '9')) return nullptr;
  const locale_t plain = newlocale(LC_ALL_MASK, "C", nullptr);
  if (!plain) return nullptr;
  char* end = nullptr;
  value = strtod_l(text.data(), &end, plain);
  freelocale(plain);
  return end;
}
// `fallback` where the variable is unset; a value outside [least, most] is warned about.
template <class T>
T number(const char* name, T fallback, T least, T most) {
  const std::string_view text = environment(name);
  if (text.empty()) return fallback;
  T value{};
  const char* const end = parse(text, value);
  if (end == text.data() + text.size() && value >= least && value <= most) return value;
  logging::warn_once(std::string(name) + "='" + std::string(text) + "' is not a number in range and is ignored");
  return fallback;
}

}  // namespace

ProcessOptions read_options() {
  ProcessOptions options;
  options.cache_directory = environment("WEFT_CACHE_DIR");
  options.cache = number("WEFT_CACHE", 1, 0, 1) != 0;
  options.stored_plans = number("WEFT_STORED_PLANS", 1, 0, 1) != 0;
  options.compiler = environment("WEFT_CXX");
  options.compile_timeout = number("WEFT_COMPILE_TIMEOUT", options.compile_timeout, 0.001, 1e6);
  options.kernel_optimization = static_cast<int>(number("WEFT_KERNEL_OPTIMIZATION", options.kernel_optimization, 0, 3));
  options.isa = environment("WEFT_ISA");
  if (const auto& isa = options.isa; !isa.empty() && isa != "baseline" && isa != "avx2" && isa != "avx512") {
    logging::warn_once("WEFT_ISA='" + isa + "' is none of baseline, avx2, avx512 and is ignored");
    options.isa.clear();
  }
  options.onednn = number("WEFT_ONEDNN", 1, 0, 1) != 0;
  options.cblas = number("WEFT_CBLAS", options.cblas, 0, 1);
  options.cuda_graphs = number("WEFT_CUDA_GRAPHS", 1, 0, 1) != 0;
  options.cuda_dependent_launch = number("WEFT_CUDA_DEPENDENT_LAUNCH", 1, 0, 1) != 0;
  options.cudnn = number("WEFT_CUDNN", 1, 0, 1) != 0;
  options.own_kernels = number("WEFT_OWN_KERNELS", 1, 0, 3);
  options.product_epilogues = number("WEFT_PRODUCT_EPILOGUES", 1, 0, 2);
  options.convolution_epilogues = number("WEFT_CONVOLUTION_EPILOGUES", options.convolution_epilogues, 0, 1);
  options.unordered_sums = number("WEFT_UNORDERED_SUMS", 0, 0, 1) != 0;
  options.onnxruntime = environment("WEFT_ONNXRUNTIME");
  options.openvino = environment("WEFT_OPENVINO");
  options.nvrtc_check = number("WEFT_NVRTC_CHECK", 0, 0, 1) != 0;
  options.raise_compile_errors = number("WEFT_RAISE_COMPILE_ERRORS", 0, 0, 1) != 0;
  for (std::string_view names = environment("WEFT_SKIP_PASSES"); !names.empty();) {
    const std::string_view name = names.substr(0, names.find(','));
    names.remove_prefix(std::min(names.size(), name.size() + 1));
    if (!name.empty()) options.skip_passes.emplace_back(name);
  }
  options.num_threads = number("WEFT_NUM_THREADS", 0, 0, 4096);
  options.cuda_memory_limit = number<std::uint64_t>("WEFT_CUDA_MEMORY_LIMIT", 0, 1, std::uint64_t{1} << 62);
  options.memory_limit = number<std::uint64_t>("WEFT_MEMORY_LIMIT", 0, 1, std::uint64_t{1} << 62);
  return options;
}

ProcessOptions& options() {
  static constinit Lazy<ProcessOptions> instance;
  return instance.get(read_options);
}

}  // namespace weft
