// package_load_c PACKAGE START: the first embedding of a fresh process (first_embedding.hpp), by weft_run.h, from a
// package of 12_serve --make. It links the runtime alone.
#include <cstdlib>

#include "first_embedding.hpp"
#include "weft_run.h"

int main(int count, char** arguments) {
  if (count != 3) return 2;
  bench::FirstEmbedding of(std::atof(arguments[2]));
  const auto require = [](weft_status status) {
    if (status == WEFT_OK) return;
    std::fprintf(stderr, "%s\n", weft_run_message());
    std::exit(1);
  };
  weft_package* package = nullptr;
  weft_function* embed = nullptr;
  require(weft_package_open(arguments[1], &package));
  require(weft_package_function(package, "embed_text", &embed));
  of.is_loaded();
  std::int64_t sizes[] = {1, static_cast<std::int64_t>(of.length)};
  const weft_tensor tokens = {of.tokens.data(), {1, 0}, 2, {0, 64, 1}, sizes, nullptr, 0};
  const weft_tensor mask = {of.mask.data(), {1, 0}, 2, {0, 64, 1}, sizes, nullptr, 0};
  const weft_tensor* given[] = {&tokens, &mask};
  weft_managed_tensor* result = nullptr;
  require(weft_function_call(embed, WEFT_ANY_KIND, given, 2, &result, 1));
  of.is_answered(static_cast<const float*>(result->dl_tensor.data),
                 static_cast<std::size_t>(result->dl_tensor.shape[1]));
  result->deleter(result);
}
