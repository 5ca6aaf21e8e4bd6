// expect: f must return what the part can be made of
#include <string>

#include "weft/tree.hpp"

struct Model {
  weft::Param weight;
};
Model names(const Model& model) {
  return weft::tree::map(model, [](const weft::Param&) { return std::string("w"); });
}
