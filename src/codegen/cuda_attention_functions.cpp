#include "codegen/cuda_attention_functions.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <span>
#include <string_view>
#include <vector>

#include "codegen/cpp_expression.hpp"
#include "ir/table.hpp"

namespace weft::codegen {

namespace {

// The derivative of each pointwise primitive by its operands: of a, b, c, the result y and what is given, g.
using Rules = std::array<std::string_view, 3>;
#define WEFT_RULES(by_a, by_b, by_c, ...) \
  Rules { #by_a, #by_b, #by_c }
constexpr Rules rules_of_pointwise[] = {
#define WEFT_POINTWISE(name, arity, dtypes, rounding, cost, lanes, scalar, ...) \
  WEFT_RULES(__VA_ARGS__, none, none, none),
#define WEFT_STRUCTURAL(...)
#include "weft/ops.def"
};
constexpr Op pointwise_ops[] = {
#define WEFT_POINTWISE(name, ...) Op::name,
#define WEFT_STRUCTURAL(...)
#include "weft/ops.def"
};
#undef WEFT_RULES

const Rules* rules_of(Op op) {
  for (std::size_t i = 0; i < std::size(pointwise_ops); ++i)
    if (pointwise_ops[i] == op) return &rules_of_pointwise[i];
  return nullptr;
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string type_of_value(DType dtype) {
  if (dtype == DType::boolean) return "Mask";
  return is_integer(dtype) ? std::string("Integer<") + memory_type(dtype) + ">" : element_type(dtype);
}

class Writer {
 public:
  explicit Writer(const AttentionMods& mods) : graph_(mods.graph), mods_(mods) {}

  std::optional<CudaAttentionFunctions> write(bool is_causal, bool is_backward, const CudaAttentionDropout& dropout) {
    CudaAttentionFunctions made;
    made.changes_scores = mods_.score.defined(), made.masks = mods_.sees.defined();
    if (made.changes_scores && type_of(mods_.score).dtype != DType::f32) return {};
    const auto flag = [](const char* name, bool value) {
      return std::string("  static constexpr bool ") + name + " = " + (value ? "true" : "false") + ";\n";
    };
    made.text = "struct Captured {\n" + flag("changes_scores", made.changes_scores) + flag("masks", made.masks) +
                flag("is_causal", is_causal);
    const bool drops = dropout.probability > 0;
    // Written after the functions, which say what is read.
    const std::string in_ranges = made.masks ? mask_in_ranges() : "";
    made.text += "  static constexpr int mask_reads = " +
                 std::to_string(in_ranges.empty() ? -1 : static_cast<int>(reads_.size())) +
                 ";\n  using MaskRead = " + mask_read() + ";\n";
    made.text += "  static constexpr int draws_together = " +
                 std::to_string(!drops                   ? 0
                                : dropout.draws_together ? 4
                                                         : 1) +
                 ";\n";
    if (drops) {
      // Of the f32 numbers n / 2^24, those that are not below the probability.
      const double least = std::ceil(std::ldexp(double{static_cast<float>(dropout.probability)}, 24));
      if (least >= std::ldexp(1.0, 24)) return {};
      made.text += std::string("  using Group = ") + (dropout.is_short ? "unsigned" : "uint64") + ";\n";
      made.text += "  static constexpr unsigned least_kept = " + std::to_string(static_cast<unsigned>(least)) +
                   ";\n  static constexpr float kept = " +
                   literal(DType::f32, std::bit_cast<std::uint64_t>(double{kept_by(dropout)})) + ";\n";
    }
    for (std::size_t i = pair_inputs; i < graph_.inputs.size(); ++i)
      made.text += std::string("  const ") + memory_type(type_of(graph_.inputs[i]).dtype) + "* captured" +
                   std::to_string(i - pair_inputs) + ";\n";
    if (drops)
      made.text += "  const long* seed;\n  const long* offset;\n";
    else if (graph_.inputs.size() <= pair_inputs)
      made.text += "  long none;\n";
    made.text += "};\n";
    if (made.changes_scores) made.text += function("float weft_score(float score, ", mods_.score, false);
    if (made.changes_scores && is_backward)
      made.text += function("float weft_score_gradient(float score, ", mods_.score, true);
    if (made.masks) {
      made.text += function("bool weft_sees(", mods_.sees, false) + in_ranges;
      made.mask_reads_batch = wanted_[graph_.number(graph_.inputs[std::size_t(PairInput::batch)])];
      made.mask_reads_head = wanted_[graph_.number(graph_.inputs[std::size_t(PairInput::head)])];
    }
    return is_right_ ? std::optional(made) : std::nullopt;
  }

 private:
  // ---- the mask of a whole tile (cuda_attention_ranges.inc)
  // ----------------------------------------------------------

  // Which nodes the roots are computed from, themselves too.
  std::vector<bool> below(std::span<const std::size_t> roots) const {
    std::vector<bool> are(graph_.nodes.size(), false);
    for (const std::size_t root : roots) are[root] = true;
    for (std::size_t i = graph_.nodes.size(); i-- > 0;)
      if (are[i])
        for (const Tensor& operand : graph_.nodes[i].node()->inputs()) are[graph_.number(operand)] = true;
    return are;
  }
  // The mask over ranges, and the numbers that it reads in vectors; empty where it has no such form: it computes with
  // floats, by another operation, or reads by query and key at once.
  std::string mask_in_ranges() {
    const std::size_t last = graph_.number(mods_.sees);
    const std::vector<bool> wanted = below(std::span(&last, 1));
    constexpr int by_query = 1, by_key = 2, most_reads = 8;
    std::vector<int> depends(graph_.nodes.size(), 0);
    std::string body;
    reads_.clear();
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (!wanted[i]) continue;
      const Node& node = *graph_.nodes[i].node();
      if (node.op == Op::input && node.type.shape.rank() > 0) continue;
      if (node.op == Op::input) {
        const auto slot = static_cast<std::size_t>(node.attributes<Parameter>().slot);
        if (slot == std::size_t(PairInput::query)) depends[i] = by_query;
        if (slot == std::size_t(PairInput::key)) depends[i] = by_key;
      }
      for (const Tensor& operand : node.inputs()) depends[i] |= depends[graph_.number(operand)];
      if (node.op == Op::gather && (depends[i] == (by_query | by_key) || reads_.size() == most_reads)) return {};
      const std::string right = in_ranges(node);
      if (right.empty()) return {};
      body += "  const " + range_type(node.type.dtype) + " " + v(i) + " = " + right + ";\n";
      if (node.op == Op::gather) reads_.push_back(i);
    }
    const std::string count = std::to_string(std::max<std::size_t>(reads_.size(), 1));
    std::string text =
        "WEFT_DEVICE void weft_mask_reads(int b, int h, int q, int k, const Captured& captured, Captured::MaskRead "
        "(&read)[" +
        count + "]) {\n";
    const std::vector<bool> of_reads = below(reads_);
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = *graph_.nodes[i].node();
      const std::string right = of_reads[i] ? value(node) : "";
      if (!right.empty()) text += "  const " + type_of_value(node.type.dtype) + " " + v(i) + " = " + right + ";\n";
    }
    for (std::size_t r = 0; r < reads_.size(); ++r)
      text += "  read[" + std::to_string(r) + "] = " + v(reads_[r]) + ".value;\n";
    return text +
           "}\nWEFT_DEVICE Truths weft_sees_in(Range<int> b, Range<int> h, Range<int> q, Range<int> k, const Captured& "
           "captured, const Range<long> (&read)[" +
           count + "]) {\n" + body + "  return " + v(last) + ";\n}\n";
  }
  // What holds each number that the mask reads.
  const char* mask_read() const {
    const auto is_wide = [&](std::size_t i) {
      const DType dtype = graph_.nodes[i].node()->type.dtype;
      return dtype == DType::i64 || dtype == DType::u32;
    };
    return std::ranges::any_of(reads_, is_wide) ? "long" : "int";
  }
  static std::string range_type(DType dtype) {
    return dtype == DType::boolean ? "Truths" : std::string("Range<") + memory_type(dtype) + ">";
  }
  // Empty where there is none.
  std::string in_ranges(const Node& node) {
    const DType dtype = node.type.dtype;
    if (dtype != DType::boolean && !is_integer(dtype)) return {};
    const bool is_bool = dtype == DType::boolean;
    const auto converted = [&](const std::string& from) {
      return is_bool ? "truths_of(" + from + ")"
                     : std::string("convert_range<") + memory_type(dtype) + ">(" + from + ")";
    };
    switch (node.op) {
      case Op::input: {
        const bool is_place = static_cast<std::size_t>(node.attributes<Parameter>().slot) < pair_inputs;
        return is_place ? value(node) : range_type(dtype) + "(" + value(node) + ".value)";
      }
      case Op::constant:
        return node.attributes<Constant>().is_size() ? "" : range_type(dtype) + "(" + value(node) + ")";
      case Op::gather: return converted("read[" + std::to_string(reads_.size()) + "]");
      case Op::cast: return converted(v(graph_.number(node.input(0))));
      case Op::stop_gradient: return v(graph_.number(node.input(0)));
      case Op::bitwise_and:
      case Op::bitwise_or:
      case Op::bitwise_xor:
      case Op::bitwise_not:
        if (!is_bool) return {};
        break;
      case Op::add:
      case Op::sub:
      case Op::mul:
      case Op::neg:
      case Op::abs:
      case Op::floor_divide:
      case Op::maximum:
      case Op::minimum:
        if (is_bool) return {};
        break;
      case Op::equal:
      case Op::not_equal:
      case Op::less:
      case Op::less_equal:
      case Op::where: break;
      default: return {};
    }
    return value(node);
  }

  static std::string v(std::size_t i) { return "v" + std::to_string(i); }
  static std::string slope(std::size_t i) { return "s" + std::to_string(i); }

  std::string function(const std::string& head, const Tensor& output, bool is_derivative) {
    const std::size_t last = graph_.number(output);
    wanted_.assign(graph_.nodes.size(), false);
    has_slope_.assign(graph_.nodes.size(), false);
    wanted_[last] = true;
    for (std::size_t i = graph_.nodes.size(); i-- > 0;)
      if (wanted_[i])
        for (const Tensor& operand : graph_.nodes[i].node()->inputs()) wanted_[graph_.number(operand)] = true;
    std::string text = "WEFT_DEVICE " + head + "int b, int h, int q, int k, const Captured& captured) {\n";
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (!wanted_[i]) continue;
      const Node& node = *graph_.nodes[i].node();
      const std::string right = value(node);
      if (!right.empty()) text += "  const " + type_of_value(node.type.dtype) + " " + v(i) + " = " + right + ";\n";
      if (!is_derivative) continue;
      const std::string by = derivative(node, i);
      if (!by.empty()) text += "  const float " + slope(i) + " = " + by + ";\n";
    }
    if (is_derivative) return text + "  return " + (has_slope_[last] ? slope(last) : "0.0f") + ";\n}\n";
    return text + "  return " + v(last) + (type_of(output).dtype == DType::boolean ? ".value" : "") + ";\n}\n";
  }

  // The right side; empty for a vector, which is read by gather alone.
  std::string value(const Node& node) {
    switch (node.op) {
      case Op::input: {
        const auto slot = static_cast<std::size_t>(node.attributes<Parameter>().slot);
        constexpr const char* pair[pair_inputs] = {"score", "b", "h", "q", "k"};
        if (slot < pair_inputs) return pair[slot];
        return node.type.shape.rank() > 0 ? "" : "load(" + captured(slot) + ")";
      }
      case Op::constant: {
        const auto& number = node.attributes<Constant>();
        const DType dtype = node.type.dtype;
        if (number.is_size()) is_right_ = false;
        return literal(dtype, is_floating(dtype) ? std::bit_cast<std::uint64_t>(number.as_number(dtype))
                                                 : static_cast<std::uint64_t>(number.as_integer()));
      }
      case Op::cast: {
        const Tensor operand = node.input(0);
        const std::string from = v(graph_.number(operand));
        if (type_of(operand).dtype == node.type.dtype) return from;
        return std::string("convert<") + memory_type(node.type.dtype) + ">(" + from + ")";
      }
      case Op::bitcast: {
        const Tensor operand = node.input(0);
        return std::string("cast_bits<") + memory_type(node.type.dtype) + ", " + memory_type(type_of(operand).dtype) +
               ">(" + v(graph_.number(operand)) + ")";
      }
      case Op::stop_gradient: return v(graph_.number(node.input(0)));
      case Op::gather: {
        const auto slot = static_cast<std::size_t>(node.input(0).node()->attributes<Parameter>().slot);
        return "load(" + captured(slot) + " + " + v(graph_.number(node.input(1))) + ".value)";
      }
      default: break;
    }
    const bool is_f32 = node.type.dtype == DType::f32;
    if (is_f32 && node.op == Op::tanh) return "attention::tanh_of(" + v(graph_.number(node.input(0))) + ")";
    if (is_f32 && node.op == Op::div && node.input(1).node()->op == Op::constant) {
      const double by = node.input(1).node()->attributes<Constant>().as_number(DType::f32);
      return v(graph_.number(node.input(0))) + " * " + literal(DType::f32, std::bit_cast<std::uint64_t>(1 / by));
    }
    std::array<std::int32_t, 3> operands = {};
    for (std::size_t i = 0; i < node.operand_count && i < 3; ++i)
      operands[i] = static_cast<std::int32_t>(graph_.number(node.input(i)));
    return spell(info(node.op).lanes, operands.data());
  }
  static std::string captured(std::size_t slot) { return "captured.captured" + std::to_string(slot - pair_inputs); }

  // Of node i by the score; empty where it does not depend on it.
  std::string derivative(const Node& node, std::size_t i) {
    if (node.op == Op::input && node.attributes<Parameter>().slot == 0) {
      has_slope_[i] = true;
      return "1.0f";
    }
    if (node.op == Op::stop_gradient || node.op == Op::bitcast) return "";
    std::string sum;
    for (std::size_t j = 0; j < node.operand_count; ++j) {
      const std::size_t operand = graph_.number(node.input(j));
      if (!has_slope_[operand]) continue;
      std::string by = slope(operand);
      if (node.op != Op::cast) {
        const Rules* const rules = rules_of(node.op);
        if (!rules) is_right_ = false;
        if (!rules || (*rules)[j] == "none") continue;
        by = rule(node, i, (*rules)[j], operand);
      }
      sum += (sum.empty() ? "(" : " + (") + by + ")";
    }
    if (!sum.empty() && node.type.dtype != DType::f32) is_right_ = false;
    has_slope_[i] = !sum.empty();
    return sum;
  }
  // A rule with names for its words; numbers are f32.
  std::string rule(const Node& node, std::size_t i, std::string_view text, std::size_t operand) {
    if (text.find("::") != std::string_view::npos) is_right_ = false;
    std::string made;
    for (std::size_t at = 0; at < text.size();) {
      std::size_t end = at;
      while (end < text.size() && (is_letter(text[end]) || is_digit(text[end]) || text[end] == '.')) ++end;
      if (end == at) {
        made += text[at++];
        continue;
      }
      const std::string_view word = text.substr(at, end - at);
      at = end;
      if (word == "g")
        made += slope(operand);
      else if (word == "y")
        made += v(i);
      else if (word == "where")
        made += "attention::where";
      else if (word == "tanh")
        made += "attention::tanh_of";
      else if (word.size() == 1 && word[0] >= 'a' && word[0] <= 'c')
        made += v(graph_.number(node.input(static_cast<std::size_t>(word[0] - 'a'))));
      else
        made += std::string(word) + (is_digit(word[0]) && word.find('.') != std::string_view::npos ? "f" : "");
    }
    return made;
  }

  const Graph& graph_;
  const AttentionMods& mods_;
  std::vector<bool> wanted_, has_slope_;  // by node, of the function that is written
  std::vector<std::size_t> reads_;        // of the mask: the nodes that read vectors
  bool is_right_ = true;
};

}  // namespace

std::optional<CudaAttentionFunctions> cuda_attention_functions(const AttentionMods& mods, bool is_causal,
                                                               bool is_backward, const CudaAttentionDropout& dropout) {
  return Writer(mods).write(is_causal, is_backward, dropout);
}

float kept_by(const CudaAttentionDropout& dropout) { return static_cast<float>(1 - dropout.probability); }

}  // namespace weft::codegen
