#include "weft/nn/transformer.hpp"

#include "base/fail.hpp"
#include "base/number_checks.hpp"
#include "record/record.hpp"
#include "weft/nn/initial.hpp"
#include "weft/nn/model.hpp"

namespace weft::nn {
namespace {

MultiheadAttention attention(std::int64_t d_model, std::int64_t nhead, const TransformerOptions& options, Loc loc) {
  return MultiheadAttention(d_model, nhead,
                            {.dropout = options.dropout,
                             .bias = options.bias,
                             .batch_first = options.batch_first,
                             .options = options.options},
                            loc);
}
LayerNorm norm(std::int64_t d_model, const TransformerOptions& options, Loc loc) {
  check_numbers("Transformer", Bounds::not_negative, {{"layer_norm_eps", options.layer_norm_eps}}, loc);
  return LayerNorm(d_model, {.eps = options.layer_norm_eps, .bias = options.bias, .options = options.options}, loc);
}

template <class Layer>
Tensor feed_forward(const Layer& layer, const Tensor& x) {
  const Tensor hidden = layer.linear1(x);
  const Tensor active = layer.activation == Activation::relu ? relu(hidden) : gelu(hidden);
  const Tensor y = layer.linear2(weft::dropout(active, layer.dropout, layer.training));
  return weft::dropout(y, layer.dropout, layer.training);
}
// x with what `part` makes of it, normalized before or after.
template <class Layer, class Part>
Tensor with(const Layer& layer, const LayerNorm& norm, const Tensor& x, Part part) {
  return layer.norm_first ? x + part(norm(x)) : norm(x + part(x));
}
template <class Layer>
Tensor attended(const Layer& layer, const MultiheadAttention& attention, const Tensor& x, const Tensor& memory,
                const AttentionMasks& masks) {
  return weft::dropout(attention(x, memory, memory, masks).output, layer.dropout, layer.training);
}

template <class Layer>
std::vector<Layer> copies(const char* name, const Layer& layer, std::int64_t count, Loc loc) {
  if (count < 0) fail(name, loc, "the number of layers is ", count);
  return std::vector<Layer>(static_cast<std::size_t>(count), layer);
}

void make_matrices(Tensor& value) {
  const Type type = type_of(value);
  if (type.shape.rank() > 1) value = xavier_uniform(type.shape, default_generator(), 1, {type.dtype, type.device});
}

}  // namespace

TransformerEncoderLayer::TransformerEncoderLayer(std::int64_t d_model, std::int64_t nhead, TransformerOptions options,
                                                 Loc loc)
    : self_attn(attention(d_model, nhead, options, loc)),
      linear1(d_model, options.dim_feedforward, {options.bias, options.options}, loc),
      linear2(options.dim_feedforward, d_model, {options.bias, options.options}, loc),
      norm1(norm(d_model, options, loc)),
      norm2(norm(d_model, options, loc)),
      dropout(options.dropout),
      activation(options.activation),
      norm_first(options.norm_first) {}

Tensor TransformerEncoderLayer::operator()(At source, const AttentionMasks& masks) const {
  LooseComposite call("TransformerEncoderLayer", source.loc);
  Tensor x = resolve(source, "TransformerEncoderLayer");
  x = with(*this, norm1, x, [&](const Tensor& x) { return attended(*this, self_attn, x, x, masks); });
  return with(*this, norm2, x, [&](const Tensor& x) { return feed_forward(*this, x); });
}

TransformerDecoderLayer::TransformerDecoderLayer(std::int64_t d_model, std::int64_t nhead, TransformerOptions options,
                                                 Loc loc)
    : self_attn(attention(d_model, nhead, options, loc)),
      multihead_attn(attention(d_model, nhead, options, loc)),
      linear1(d_model, options.dim_feedforward, {options.bias, options.options}, loc),
      linear2(options.dim_feedforward, d_model, {options.bias, options.options}, loc),
      norm1(norm(d_model, options, loc)),
      norm2(norm(d_model, options, loc)),
      norm3(norm(d_model, options, loc)),
      dropout(options.dropout),
      activation(options.activation),
      norm_first(options.norm_first) {}

Tensor TransformerDecoderLayer::operator()(At target, At memory, const DecoderMasks& masks) const {
  LooseComposite call("TransformerDecoderLayer", target.loc);
  Tensor x = resolve(target, "TransformerDecoderLayer");
  const Tensor given = resolve(memory, "TransformerDecoderLayer");
  x = with(*this, norm1, x, [&](const Tensor& x) { return attended(*this, self_attn, x, x, masks.self); });
  x = with(*this, norm2, x, [&](const Tensor& x) { return attended(*this, multihead_attn, x, given, masks.memory); });
  return with(*this, norm3, x, [&](const Tensor& x) { return feed_forward(*this, x); });
}

TransformerEncoder::TransformerEncoder(const TransformerEncoderLayer& layer, std::int64_t num_layers,
                                       std::optional<LayerNorm> norm, Loc loc)
    : layers(copies("TransformerEncoder", layer, num_layers, loc)), norm(std::move(norm)) {}
Tensor TransformerEncoder::operator()(At source, const AttentionMasks& masks) const {
  LooseComposite call("TransformerEncoder", source.loc);
  Tensor x = resolve(source, "TransformerEncoder");
  for (const TransformerEncoderLayer& layer : layers) x = layer(x, masks);
  return norm ? (*norm)(x) : x;
}

TransformerDecoder::TransformerDecoder(const TransformerDecoderLayer& layer, std::int64_t num_layers,
                                       std::optional<LayerNorm> norm, Loc loc)
    : layers(copies("TransformerDecoder", layer, num_layers, loc)), norm(std::move(norm)) {}
Tensor TransformerDecoder::operator()(At target, At memory, const DecoderMasks& masks) const {
  LooseComposite call("TransformerDecoder", target.loc);
  Tensor x = resolve(target, "TransformerDecoder");
  for (const TransformerDecoderLayer& layer : layers) x = layer(x, memory, masks);
  return norm ? (*norm)(x) : x;
}

Transformer::Transformer(std::int64_t d_model, std::int64_t nhead, std::int64_t num_encoder_layers,
                         std::int64_t num_decoder_layers, TransformerOptions options, Loc loc)
    : encoder(TransformerEncoderLayer(d_model, nhead, options, loc), num_encoder_layers,
              nn::norm(d_model, options, loc), loc),
      decoder(TransformerDecoderLayer(d_model, nhead, options, loc), num_decoder_layers,
              nn::norm(d_model, options, loc), loc) {
  for (const auto& parameter : parameters(*this)) make_matrices(parameter.value.tensor());
}
Tensor Transformer::operator()(At source, At target, const TransformerMasks& masks) const {
  LooseComposite call("Transformer", source.loc);
  return decoder(target, encoder(source, masks.source), {masks.target, masks.memory});
}

}  // namespace weft::nn
