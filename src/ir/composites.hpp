// What a composite is besides its name and operands: a struct here, and a row of the table below. Nothing else of a
// call tells two bodies apart, so a body may depend on these fields alone. A provider that takes a call whole reads
// from them what the body says in full. Every struct begins with `Called`; a composite without numbers is that alone,
// and needs no row.
#pragma once
#include <string_view>

#include "ir/attributes.hpp"

namespace weft {

// softmax, means, variances: over some axes.
struct ReducedCall : Called {
  AxisSet axes = {};
  bool keepdim = false;   // reduced axes stay, as size 1
  double correction = 0;  // of var and std: what is taken from the count
  static constexpr auto fields() {
    return std::array{field<&Called::name>(""), field<&ReducedCall::axes>("axes"),
                      field<&ReducedCall::keepdim>("keepdim"), field<&ReducedCall::correction>("correction")};
  }
};

struct NormalizedCall : Called {
  AxisSet axes = {};  // that one mean and one variance are taken over; none where they are operands
  double eps = 0;     // added to the variance
  static constexpr auto fields() {
    return std::array{field<&Called::name>(""), field<&NormalizedCall::axes>("axes"),
                      field<&NormalizedCall::eps>("eps")};
  }
};

struct AttentionCall : Called {
  double scale = 1;  // of the products of queries and keys
  bool is_causal = false;
  InternedText mods = {};  // what is done to scores, as ir/attention_mods.hpp reads it; empty: nothing
  double dropout = 0;      // probability; not 0: after the mask or what is captured come a seed and an offset
  bool has_mods() const { return mods.id != 0; }
  static constexpr auto fields() {
    return std::array{field<&Called::name>(""), field<&AttentionCall::scale>("scale"),
                      field<&AttentionCall::is_causal>("is_causal"), field<&AttentionCall::mods>("mods"),
                      field<&AttentionCall::dropout>("dropout")};
  }
};

// A pool, whose last axes have windows.
struct PoolCall : Called {
  List<std::int64_t> kernel = {}, strides = {}, dilation = {};
  static constexpr auto fields() {
    return std::array{field<&Called::name>(""), field<&PoolCall::kernel>("kernel"),
                      field<&PoolCall::strides>("strides"), field<&PoolCall::dilation>("dilation")};
  }
};

// A convolution of 16-bit floats with a bias: the fields of Convolution.
struct ConvolutionCall : Called {
  List<std::int64_t> strides = {}, low = {}, high = {}, dilation = {};
  std::int64_t groups = 1;
  Convolution convolution() const { return {strides, low, high, dilation, groups}; }
  static constexpr auto fields() {
    return std::array{field<&Called::name>(""),
                      field<&ConvolutionCall::strides>("strides"),
                      field<&ConvolutionCall::low>("low"),
                      field<&ConvolutionCall::high>("high"),
                      field<&ConvolutionCall::dilation>("dilation"),
                      field<&ConvolutionCall::groups>("groups")};
  }
};

struct LossCall : Called {
  std::int64_t reduction = 0;  // Reduction of weft/nn/losses.hpp
  double bound = 0;            // beta, delta or margin; rows of a chunk
  bool log_target = false;
  static constexpr auto fields() {
    return std::array{field<&Called::name>(""), field<&LossCall::reduction>("reduction"),
                      field<&LossCall::bound>("bound"), field<&LossCall::log_target>("log_target")};
  }
};

// An activation with up to two numbers, in the order of the public function.
struct ActivationCall : Called {
  double first = 0, second = 0;
  static constexpr auto fields() {
    return std::array{field<&Called::name>(""), field<&ActivationCall::first>("first"),
                      field<&ActivationCall::second>("second")};
  }
};

// A function with one choice: gelu by tanh, scatter_reduce to the least, searchsorted from the right.
struct ChoiceCall : Called {
  bool chosen = false;
  static constexpr auto fields() { return std::array{field<&Called::name>(""), field<&ChoiceCall::chosen>("chosen")}; }
};

// grid_sample: the fields of its options, as numbers.
struct SampleCall : Called {
  std::int64_t mode = 0, padding = 0;
  bool align_corners = false;
  static constexpr auto fields() {
    return std::array{field<&Called::name>(""), field<&SampleCall::mode>("mode"),
                      field<&SampleCall::padding>("padding"), field<&SampleCall::align_corners>("align_corners")};
  }
};

struct SgdCall : Called {
  bool nesterov = false;
  static constexpr auto fields() { return std::array{field<&Called::name>(""), field<&SgdCall::nesterov>("nesterov")}; }
};

struct CompositeRow {
  std::string_view name;
  const AttributeType* attributes;
};
inline constexpr CompositeRow composite_rows[] = {
    {"softmax", &attribute_type<ReducedCall>},
    {"log_softmax", &attribute_type<ReducedCall>},
    {"logsumexp", &attribute_type<ReducedCall>},
    {"mean", &attribute_type<ReducedCall>},
    {"nanmean", &attribute_type<ReducedCall>},
    {"var", &attribute_type<ReducedCall>},
    {"std", &attribute_type<ReducedCall>},
    {"norm", &attribute_type<ReducedCall>},
    {"greatest_of_windows", &attribute_type<ReducedCall>},
    {"max_pool", &attribute_type<PoolCall>},
    {"cross_entropy", &attribute_type<ReducedCall>},
    {"layer_norm", &attribute_type<NormalizedCall>},
    {"rms_norm", &attribute_type<NormalizedCall>},
    {"group_norm", &attribute_type<NormalizedCall>},
    {"batch_norm", &attribute_type<NormalizedCall>},
    {"batch_norm_training", &attribute_type<NormalizedCall>},
    {"batch_norm_inference", &attribute_type<NormalizedCall>},
    {"instance_norm", &attribute_type<NormalizedCall>},
    {"instance_norm_training", &attribute_type<NormalizedCall>},
    {"instance_norm_inference", &attribute_type<NormalizedCall>},
    {"scaled_dot_product_attention", &attribute_type<AttentionCall>},
    {"paged_attention", &attribute_type<AttentionCall>},
    {"conv1d", &attribute_type<ConvolutionCall>},
    {"conv2d", &attribute_type<ConvolutionCall>},
    {"conv3d", &attribute_type<ConvolutionCall>},
    {"l1_loss", &attribute_type<LossCall>},
    {"linear_cross_entropy", &attribute_type<LossCall>},
    {"mse_loss", &attribute_type<LossCall>},
    {"smooth_l1_loss", &attribute_type<LossCall>},
    {"huber_loss", &attribute_type<LossCall>},
    {"soft_margin_loss", &attribute_type<LossCall>},
    {"hinge_embedding_loss", &attribute_type<LossCall>},
    {"kl_div", &attribute_type<LossCall>},
    {"elu", &attribute_type<ActivationCall>},
    {"celu", &attribute_type<ActivationCall>},
    {"leaky_relu", &attribute_type<ActivationCall>},
    {"softplus", &attribute_type<ActivationCall>},
    {"hardtanh", &attribute_type<ActivationCall>},
    {"softshrink", &attribute_type<ActivationCall>},
    {"hardshrink", &attribute_type<ActivationCall>},
    {"threshold", &attribute_type<ActivationCall>},
    {"gelu", &attribute_type<ChoiceCall>},
    {"scatter_reduce", &attribute_type<ChoiceCall>},
    {"searchsorted", &attribute_type<ChoiceCall>},
    {"grid_sample", &attribute_type<SampleCall>},
    {"sgd", &attribute_type<SgdCall>},
};

// The struct of a composite of this name, or of its derivative, whose name ends in `_backward`.
constexpr const AttributeType& composite_attributes(std::string_view name) {
  constexpr std::string_view derivative = "_backward";
  while (name.ends_with(derivative)) name.remove_suffix(derivative.size());
  for (const CompositeRow& row : composite_rows)
    if (row.name == name) return *row.attributes;
  return attribute_type<Called>;
}

}  // namespace weft
