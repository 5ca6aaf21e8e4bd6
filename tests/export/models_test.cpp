// Every example model: its forward graph, exported, written and read back, runs to the bits that the model gives.
#include <doctest/doctest.h>

#include "tests/models/small_models.hpp"
#include "weft/export.hpp"

using namespace weft;

namespace {

struct Exported {
  int count = 0;
  template <class F, class Model, class... A>
  void add(const char* name, F f, Model model, const A&... argument) {
    CAPTURE(name);
    ++count;
    const ExportedGraph graph = export_graph(compile(f), model, argument...);
    const Tensor wanted = f(model, argument...);
    for (const std::string& text : {graph.text(), graph.json()}) {
      const ExportedGraph again = import_graph(text, graph.tensors());
      CHECK(again.text() == graph.text());
      CHECK(again.json() == graph.json());
      const Tensor got = again({argument...})[0];
      CHECK(got.shape() == wanted.shape());
      CHECK(all(got == wanted).template item<bool>());
    }
  }
};

}  // namespace

TEST_CASE("example models are exported and read back, to the same bits") {
  Exported all;
  small_models::add_small_models(all);
  CHECK(all.count == 14);
}
