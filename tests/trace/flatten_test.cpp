// Flattening: the order, kinds and paths of leaves.
#include "weft/flatten.hpp"

#include <doctest/doctest.h>

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

using namespace weft;
using namespace weft::detail;

namespace {

enum class Mode : std::uint8_t { train, test };
struct Linear {
  Param weight, bias;
};
struct Model {
  Linear in;
  std::vector<Linear> blocks;
  std::optional<Buffer> mean;
  std::variant<Linear, Scalar> head;
  std::array<Tensor, 2> pair;
  std::tuple<int, Index> both;
  std::string name = "mlp";
  std::vector<int> sizes = {1, 2, 3};
  Mode mode = Mode::test;
};
struct Tree {
  Tensor value;
  std::vector<Tree> children;
};

template <class T>
std::vector<std::string> paths_of(T& value) {
  LeafList list;
  flatten(value, list);
  std::vector<std::string> paths;
  std::size_t count = visit_paths(Description<std::remove_const_t<T>>::value, list.leaves.begin(), &paths,
                                  [](void* context, const Leaf&, const char* path) {
                                    static_cast<std::vector<std::string>*>(context)->push_back(path);
                                  });
  CHECK(count == list.leaves.size());
  return paths;
}

}  // namespace

TEST_CASE("leaves come in the order of members, with the way to them") {
  Model model;
  model.blocks.resize(2);
  model.mean = Buffer();
  CHECK(paths_of(model) == std::vector<std::string>{"in.weight",     "in.bias",
                                                    "blocks",        "blocks.0.weight",
                                                    "blocks.0.bias", "blocks.1.weight",
                                                    "blocks.1.bias", "mean",
                                                    "mean",          "head",
                                                    "head.weight",   "head.bias",
                                                    "pair.0",        "pair.1",
                                                    "both.0",        "both.1",
                                                    "name",          "sizes",
                                                    "sizes",         "mode"});
  model.head = Scalar();
  model.mean.reset();
  model.blocks.clear();
  CHECK(paths_of(model) == std::vector<std::string>{"in.weight", "in.bias", "blocks", "mean", "head", "head", "pair.0",
                                                    "pair.1", "both.0", "both.1", "name", "sizes", "sizes", "mode"});
}

TEST_CASE("a leaf says what it is and where its value lies") {
  Model model;
  model.in.bias.frozen = true;
  LeafList list;
  flatten(model, list);
  CHECK(list.leaves[0].kind == LeafKind::param);
  CHECK(list.leaves[0].address == &model.in.weight.tensor());
  CHECK_FALSE(list.leaves[0].flag);
  CHECK(list.leaves[1].flag);
  const Leaf& mode = list.leaves[list.leaves.size() - 1];
  CHECK(mode.kind == LeafKind::number);
  CHECK(mode.size == 1);
  CHECK(mode.address == &model.mode);
  CHECK(list.runs.size() == 2);  // the elements of blocks and sizes
}

TEST_CASE("recursive types and lists longer than the first block of memory") {
  Tree tree;
  tree.children.resize(50);
  tree.children[49].children.resize(1);
  std::vector<std::string> paths = paths_of(tree);
  CHECK(paths.size() == 2 + 2 * 50 + 2);
  CHECK(paths[paths.size() - 1] == "children.49.children.0.children");
}

// What may be passed, and what may not.
static_assert(Flattenable<Model>);
static_assert(Flattenable<Tree>);
static_assert(Flattenable<std::pair<Tensor, std::vector<Scalar>>>);
static_assert(!Flattenable<std::shared_ptr<Tensor>>);
static_assert(!Flattenable<std::vector<int*>>);
static_assert(Flattenable<std::map<int, Tensor>> && Flattenable<std::map<std::string, std::unique_ptr<Tensor>>>);
static_assert(!Flattenable<std::map<double, Tensor>>);
static_assert(!Flattenable<std::unordered_map<int, Tensor>>);
static_assert(!Flattenable<std::vector<bool>>);
static_assert(!Flattenable<long double>);
static_assert(std::is_same_v<FirstUnsupported<std::tuple<int, std::vector<char*>>>::type, char*>);
static_assert(copyable<Model>());
static_assert(!copyable<std::vector<std::unique_ptr<int>>>());
static_assert(cloneable<std::vector<std::unique_ptr<int>>>());
