#include "record/host_call.hpp"

#include <algorithm>
#include <cstring>
#include <iostream>
#include <sstream>

#include "base/fail.hpp"
#include "base/storage.hpp"
#include "ir/host_function.hpp"
#include "record/evaluate.hpp"
#include "record/host_values.hpp"
#include "record/record.hpp"

namespace weft {
namespace {

// The function of print(), by which it is known. Nobody calls it.
std::vector<Tensor> print_values(void (*)(), detail::HostTensors) { return {}; }
constexpr HostCalls printing{{nullptr, print_values, UINT32_MAX}, {}};

// The parts of a text between its {}, with {{ and }} as braces.
std::vector<std::string> parts_of(const std::string& text, Loc loc) {
  std::vector<std::string> parts(1);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i], next = i + 1 < text.size() ? text[i + 1] : '\0';
    if (c != '{' && c != '}') {
      parts.back() += c;
    } else if (next == c) {
      parts.back() += c;
      ++i;
    } else if (c == '{' && next == '}') {
      parts.emplace_back();
      ++i;
    } else {
      fail("print", loc, "a ", c, " is left alone in \"", text, "\": {} stands for an operand, {{ and }} for braces");
    }
  }
  return parts;
}

void write_line(const std::string& text, std::span<const Tensor> values, Loc loc) {
  const std::vector<std::string> parts = parts_of(text, loc);
  std::ostringstream line;
  line << parts[0];
  for (std::size_t i = 0; i < values.size(); ++i) {
    write_elements(line, values[i]);
    line << parts[i + 1];
  }
  line << "\n";
  std::cout << line.str();
}

Type type_of_value(const HostValue& value) {
  Type type{value.dtype, false, {}, {}};
  for (const std::int64_t size : value.sizes) type.shape.push_back(size);
  return type;
}
std::size_t bytes_of(const HostValue& value) {
  std::int64_t count = 1;
  for (const std::int64_t size : value.sizes) count *= size;
  return storage_bytes(value.dtype, count);
}

Tensor copied(const HostValue& value, Loc loc) {
  const std::size_t bytes = bytes_of(value);
  Storage* const storage = allocate(Device::cpu(), bytes);
  if (bytes) std::memcpy(storage->data, value.data, bytes);
  return make_data(storage, type_of_value(value), loc);
}
void copy_to(const HostValue& result, const Tensor& given, std::size_t number, Loc loc) {
  const Type wanted = type_of_value(result);
  if (!given.defined()) fail("host_call", loc, "the function gave an undefined tensor as result ", number);
  const Type& type = type_of(given);
  if (type.dtype != wanted.dtype || !(type.shape == wanted.shape))
    fail("host_call", loc, "the function gave ", to_string(type), " as result ", number, ", which was declared ",
         to_string(wanted));
  const Contiguous value = contiguous(to(given, Device::cpu(), loc), loc);
  if (const std::size_t bytes = bytes_of(result))
    std::memcpy(result.data,
                static_cast<const std::byte*>(value.storage->data) + storage_bytes(type.dtype, value.offset), bytes);
  release(value.storage);
}

// On one device: that of an operand which is not on the host.
std::vector<Tensor> record_host_call(const char* operation, const HostCalls& function, std::string_view text,
                                     std::span<const ResultType> results, std::span<const At> operands, Loc loc) {
  std::vector<Tensor> values;
  Device device;
  for (const At& operand : operands) {
    values.push_back(resolve(operand, operation));
    if (type_of(values.back()).device.type != Device::Type::cpu) device = type_of(values.back()).device;
  }
  for (Tensor& value : values)
    if (type_of(value).device != device) value = to(value, device, loc);
  std::vector<Type> types;
  for (const ResultType& result : results) types.push_back({result.dtype, false, device, result.shape.shape()});
  if (results.empty()) types.push_back({DType::boolean, false, device, {}});
  if (!recorder().trace()) evaluate(values, loc, operation);
  const HostCalled called{host_function_number(function), !results.empty(), {intern_text(text)}};
  const Tensor value = record_region(Op::host_call, values, called, types, {}, loc);
  return results.empty() ? std::vector<Tensor>() : results_of(value);
}

}  // namespace

void require_host_operands(const char* operation, const detail::HostCallable& callable, std::size_t count, Loc loc) {
  if (callable.takes == UINT32_MAX || (count < 32 && callable.takes >> count & 1)) return;
  std::string takes;
  for (std::size_t n = 0; n <= detail::most_host_operands; ++n)
    if (callable.takes >> n & 1) takes += (takes.empty() ? "" : " or ") + std::to_string(n);
  fail(operation, loc, "the function takes ", takes, takes == "1" ? " tensor" : " tensors", ", and is given ", count);
}

void call_host_function(const HostCalled& called, std::span<const HostValue> operands,
                        std::span<const HostValue> results, Loc loc) {
  const HostCalls& function = host_function(called.function);
  const OutsideTraces outside;
  const EvaluationPause pause;
  std::vector<Tensor> values;
  for (const HostValue& operand : operands) values.push_back(copied(operand, loc));
  if (function == printing) {
    write_line(interned_text(called.text.id), values, loc);
  } else {
    const std::vector<Tensor> given = function.call.call(function.call.function, values);
    const std::size_t declared = called.gives ? results.size() : 0;
    if (given.size() != declared)
      fail("host_call", loc, "the function gave ",
           counted(static_cast<std::int64_t>(given.size()), "tensor", "tensors"), ", declared are ", declared);
    for (std::size_t i = 0; i < declared; ++i) copy_to(results[i], given[i], i, loc);
  }
  if (!called.gives) *static_cast<bool*>(results[0].data) = true;
}

std::vector<Tensor> detail::host_call(const HostFunction& function, std::span<const ResultType> results,
                                      std::span<const At> operands) {
  const Operation call("host_call", function.loc());
  require_host_operands("host_call", function.call(), operands.size(), call.loc());
  return record_host_call("host_call", {function.call(), function.derivative()}, {}, results, operands, call.loc());
}

void detail::print(const PrintText& text, std::span<const At> operands) {
  const Operation call("print", text.loc());
  const std::size_t places = parts_of(text.text(), call.loc()).size() - 1;
  if (places != operands.size())
    fail("print", call.loc(), "\"", text.text(), "\" has ", places, " {}, there ",
         operands.size() == 1 ? "is 1 operand" : concat_text("are ", operands.size(), " operands"));
  record_host_call("print", printing, text.text(), {}, operands, call.loc());
}

}  // namespace weft
