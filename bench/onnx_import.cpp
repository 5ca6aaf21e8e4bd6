// onnx_import MODEL.onnx VALUES.npz [--compiled [AGAIN]]: loads a model of ONNX and runs it once on the inputs of the
// file of values (input_0, ...), and AGAIN more times. Prints as JSON the seconds of loading, of the first run and of
// the fastest of the others, and the largest difference of a result from that of the file (output_0, ...), as a part of
// its size, the largest number of the result being the least that counts.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "weft/onnx.hpp"
#include "weft/weft.hpp"

using namespace weft;

namespace {

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const bool compiled = argc > 3 && std::strcmp(argv[3], "--compiled") == 0;
  std::vector<Tensor> inputs, wanted;
  for (const auto& [name, value] : io::load_npz(argv[2]))
    (name.starts_with("input_") ? inputs : wanted).push_back(value);
  const double begin = seconds();
  const onnx::Model model = onnx::load(argv[1]);
  const double loaded = seconds();
  const auto f = compile([](const onnx::Model& m, const std::vector<Tensor>& x) { return m(x); });
  std::vector<Tensor> results = compiled ? f(model, inputs) : model(inputs);
  for (Tensor& each : results) each.eval();
  const double run = seconds();
  double fastest = run - loaded;
  for (int i = argc > 4 ? std::atoi(argv[4]) : 0; i > 0; --i) {
    const double start = seconds();
    std::vector<Tensor> more = compiled ? f(model, inputs) : model(inputs);
    for (Tensor& each : more) each.eval();
    fastest = std::min(fastest, seconds() - start);
  }
  double error = 0;
  bool fits = results.size() == wanted.size();
  for (std::size_t i = 0; fits && i < results.size(); ++i) {
    fits = results[i].shape() == wanted[i].shape() && results[i].dtype() == wanted[i].dtype();
    if (!fits || results[i].element_count() == Dim(0)) continue;
    const Tensor a = cast(results[i], DType::f64), b = cast(wanted[i], DType::f64);
    error = std::max(error, (max(abs(a - b)) / (1 + max(abs(b)))).item());
  }
  std::printf("{\"load\": %.6f, \"run\": %.6f, \"total\": %.6f, \"fastest\": %.6f, \"error\": %.3g}\n", loaded - begin,
              run - loaded, run - begin, fastest, fits ? error : 1.0);
  return fits ? 0 : 1;
}
