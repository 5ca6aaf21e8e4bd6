// package_load_onnx LIBRARY MODEL START: the first embedding of a fresh process (first_embedding.hpp), by ONNX Runtime.
#include <cstdlib>

#include "first_embedding.hpp"
#include "onnxruntime.hpp"

int main(int count, char** arguments) {
  if (count != 4) return 2;
  bench::FirstEmbedding of(std::atof(arguments[3]));
  const bench::OnnxRuntime embed(arguments[1], arguments[2], 2);
  of.is_loaded();
  const std::vector<float> values = embed(of.tokens, of.mask, 1, of.length);
  of.is_answered(values.data(), values.size());
}
