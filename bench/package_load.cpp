// package_load PACKAGE START: the first embedding of a fresh process (first_embedding.hpp), by weft/package.hpp, from a
// package of 12_serve --make.
#include <cstdlib>

#include "first_embedding.hpp"
#include "weft/package.hpp"

int main(int count, char** arguments) {
  if (count != 3) return 2;
  using weft::Tensor;
  bench::FirstEmbedding of(std::atof(arguments[2]));
  const auto embed = weft::load_package(arguments[1]).function<Tensor(const Tensor&, const Tensor&)>("embed_text");
  of.is_loaded();
  const weft::Sizes sizes{1, of.length};
  const Tensor vector = embed(weft::from_span(of.tokens, sizes), weft::from_span(of.mask, sizes));
  const auto values = vector.data<float>();
  of.is_answered(values.data(), values.size());
}
