#include "ir/operation_set.hpp"

#include "ir/composites.hpp"
#include "ir/table.hpp"

namespace weft {
namespace {

const char* name_of(FieldKind kind) {
  switch (kind) {
    case FieldKind::integer: return "integer";
    case FieldKind::real: return "float";
    case FieldKind::boolean: return "bool";
    case FieldKind::axis: return "axis";
    case FieldKind::dtype: return "dtype";
    case FieldKind::size: return "size";
    case FieldKind::axis_set: return "set of axes";
    case FieldKind::text: return "text";
    case FieldKind::number: return "number of the result's dtype";
    case FieldKind::axes: return "list of axes";
    case FieldKind::sizes: return "list of sizes";
    case FieldKind::integers: return "list of integers";
  }
  return "";
}

std::vector<std::string> attributes_of(const AttributeType& type) {
  std::vector<std::string> all;
  for (const Field& field : type.fields)
    all.push_back(std::string(*field.name ? field.name : "value") + ": " + name_of(field.kind));
  return all;
}

}  // namespace

std::string OperationRow::text() const {
  std::string line = (is_composite ? "composite " : "") + name + ", operands: " + operands;
  for (const std::string& each : attributes) line += ", " + each;
  return line;
}

std::vector<OperationRow> operation_rows() {
  std::vector<OperationRow> rows;
  for (int i = 0; i < op_count; ++i) {
    const OpInfo& row = info(static_cast<Op>(i));
    rows.push_back(
        {row.name, false, row.arity < 0 ? "any number" : std::to_string(row.arity), attributes_of(*row.attributes)});
  }
  for (const CompositeRow& row : composite_rows)
    rows.push_back({std::string(row.name), true, "those of its body", attributes_of(*row.attributes)});
  return rows;
}

}  // namespace weft
