// A model as its file has it: plain structs, which loading and saving are written against. What knows protobuf is
// file.cpp alone.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "weft/dtype.hpp"
#include "weft/error.hpp"

namespace weft::onnx {

struct GraphData;

// Element types by their numbers in the file. A dtype has one; those without a dtype are named in errors.
int element_type(DType dtype);
bool has_dtype(int element_type);
DType dtype_of_element(int element_type);  // of one that has a dtype
const char* element_name(int element_type);

struct TensorData {
  std::string name = {};
  int type = 0;
  std::vector<std::int64_t> sizes = {};
  std::string bytes = {};               // elements, row-major, little-endian; of an element type that has a dtype
  std::vector<std::string> texts = {};  // the elements of a tensor of strings
  // Where the elements lie in a file: `bytes` is empty then. `place`: as the model says it of another file.
  std::vector<std::pair<std::string, std::string>> place = {};
  std::shared_ptr<const MappedFile> file = {};
  std::uint64_t offset = 0, length = 0;
  std::int64_t count() const;
  std::span<const std::uint8_t> elements() const;
};

struct AttributeData {
  enum class Kind : std::uint8_t { number, integer, text, tensor, graph, numbers, integers, texts, other };
  std::string name = {};
  Kind kind = Kind::other;
  std::string reference = {};  // in a function: the attribute of the call that it is; empty: it has a value of its own
  double number = 0;
  std::int64_t integer = 0;
  std::string text = {};
  std::shared_ptr<TensorData> tensor = {};
  std::shared_ptr<GraphData> graph = {};
  std::vector<double> numbers = {};
  std::vector<std::int64_t> integers = {};
  std::vector<std::string> texts = {};
};

struct NodeData {
  std::string name = {}, operation = {}, domain = {};
  std::vector<std::string> inputs = {}, outputs = {};  // an empty name: left out
  std::vector<AttributeData> attributes = {};
  std::string overload = {};  // of a function that is called
  std::int64_t version = 0;   // of the operator set; 0: that of the model. Of nodes that were a function's
  const AttributeData* find(std::string_view name) const;
};

struct AxisData {
  std::int64_t size = -1;  // -1: not known
  std::string name = {};   // of a size that is not known
};
struct ValueData {
  std::string name = {};
  int type = 0;            // 0: no tensor
  bool has_sizes = false;  // else its rank is not known
  std::vector<AxisData> axes = {};
};

struct GraphData {
  std::string name = {};
  std::vector<NodeData> nodes = {};
  std::vector<TensorData> initializers = {};
  std::vector<ValueData> inputs = {}, outputs = {};
};

// A function that the file defines itself. A node of its domain, name and overload is a call of it.
struct FunctionData {
  std::string name = {}, domain = {}, overload = {};
  std::vector<std::string> inputs = {}, outputs = {};
  std::vector<std::string> attributes = {};  // those that have no default
  std::vector<AttributeData> defaults = {};  // the others
  std::vector<NodeData> nodes = {};
  std::map<std::string, std::int64_t> operator_sets = {};  // by domain
};

struct ModelData {
  std::int64_t ir_version = 0;
  std::map<std::string, std::int64_t> operator_sets = {};  // by domain; "" is the default one
  std::string producer = {};
  GraphData graph = {};
  std::vector<FunctionData> functions = {};
};

// Throws Error that begins with `file` where the bytes are no model. Other files are read from `folder`; empty: none
// is. `mapped`: whose bytes these are, where the elements of large initializers may stay there.
ModelData parse_model(std::span<const std::uint8_t> bytes, const std::string& file, const std::string& folder, Loc loc,
                      const std::shared_ptr<const MappedFile>& mapped = nullptr);
// Throws Error where it takes more than 2 GiB.
std::string serialize_model(const ModelData& model);
// One tensor in a file of its own, as the tests of the onnx package have them.
TensorData parse_tensor(std::span<const std::uint8_t> bytes, const std::string& file, Loc loc);

}  // namespace weft::onnx
