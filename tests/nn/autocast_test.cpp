// Autocast and layers: which dtype each layer gives, next to what PyTorch's gives; layers that are made of others.
#include <doctest/doctest.h>

#include <functional>
#include <map>
#include <string>
#include <weft/weft.hpp>

using namespace weft;

namespace {

constexpr DType bf16 = DType::bf16, f32 = DType::f32;

struct GoldenRow {
  const char *name, *cpu_of_f32, *cpu_of_bf16, *cuda_of_f32, *cuda_of_bf16;  // empty: PyTorch refuses it
};
constexpr GoldenRow golden[] = {
#include "tests/nn/autocast_golden.inc"
};

// What Weft's table makes of PyTorch's two: 16 bits where CUDA's list says so, f32 where one of both does.
std::string joined(std::string cpu, std::string cuda) {
  if (cuda.empty()) return cpu;
  if (cpu.empty()) return cuda;
  return cuda == "bf16" && cpu == "f32" ? "f32" : cuda;
}
std::string wanted(const GoldenRow& row, DType given) {
  const std::string name = row.name;
  // Values are moved here, none is computed: f32 would only take more memory.
  const auto moves = [&](const char* prefix) { return name.starts_with(prefix); };
  if (moves("ReflectionPad") || moves("ReplicationPad") || moves("MaxUnpool") || moves("FractionalMaxPool"))
    return info(given).name;
  // The CPU's list lacks the fused cells.
  if (given == f32) return *row.cuda_of_f32 ? row.cuda_of_f32 : row.cpu_of_f32;
  return joined(row.cpu_of_bf16, row.cuda_of_bf16);
}

Tensor some(const Sizes& sizes, DType dtype) {
  Generator generator(3);
  return cast(uniform(sizes, 0.1, 0.9, generator), dtype);
}

// A call of each layer, or of the function where Weft has no layer, with floating inputs of a dtype.
using Call = std::function<Tensor(DType)>;
template <class Layer>
Call on(Sizes sizes, Layer layer) {
  return [=](DType t) mutable { return layer(some(sizes, t)); };
}
Call of_two(Tensor (*f)(const Tensor&, const Tensor&)) {
  return [=](DType t) { return f(some({2, 4}, t), some({2, 4}, t)); };
}

#define LAYERS_OF_AXES(axes, ...)                                                                          \
  {                                                                                                        \
    const Sizes sizes{__VA_ARGS__};                                                                        \
    const std::string end = #axes "d";                                                                     \
    m["Conv" + end] = on(sizes, nn::Conv##axes##d(2, 3, 3));                                               \
    m["ConvTranspose" + end] = on(sizes, nn::ConvTranspose##axes##d(2, 3, 3));                             \
    m["AvgPool" + end] = on(sizes, nn::AvgPool##axes##d(2));                                               \
    m["MaxPool" + end] = on(sizes, nn::MaxPool##axes##d(2));                                               \
    m["AdaptiveAvgPool" + end] = on(sizes, nn::AdaptiveAvgPool##axes##d(2));                               \
    m["AdaptiveMaxPool" + end] = on(sizes, nn::AdaptiveMaxPool##axes##d(2));                               \
    m["BatchNorm" + end] = on(sizes, nn::BatchNorm##axes##d(2));                                           \
    m["InstanceNorm" + end] = on(sizes, nn::InstanceNorm##axes##d(2));                                     \
    m["Dropout" + end] = on(sizes, nn::Dropout##axes##d());                                                \
    const auto padded = [=](Pads mode, double fill = 0) {                                                  \
      const std::vector<std::int64_t> widths(2 * axes, 1);                                                 \
      return [=](DType t) { return pad(some(sizes, t), widths, mode, fill); };                             \
    };                                                                                                     \
    m["ReflectionPad" + end] = padded(Pads::reflect), m["ReplicationPad" + end] = padded(Pads::replicate); \
    m["CircularPad" + end] = padded(Pads::circular);                                                       \
    m["ZeroPad" + end] = padded(Pads::constant), m["ConstantPad" + end] = padded(Pads::constant, 0.5);     \
    m["MaxUnpool" + end] = [=](DType t) {                                                                  \
      const ValuesAndIndices pooled = max_pool##axes##d_with_indices(some(sizes, f32), 2);                 \
      return nn::MaxUnpool##axes##d(2)(cast(pooled.values, t), pooled.indices);                            \
    };                                                                                                     \
  }

std::map<std::string, Call> layers() {
  std::map<std::string, Call> m;
  LAYERS_OF_AXES(1, 2, 2, 8)
  LAYERS_OF_AXES(2, 2, 2, 8, 8)
  LAYERS_OF_AXES(3, 2, 2, 8, 8, 8)
  m["FractionalMaxPool2d"] = on({2, 2, 8, 8}, nn::FractionalMaxPool2d(2, {.output_size = 3}));
  m["FractionalMaxPool3d"] = on({2, 2, 8, 8, 8}, nn::FractionalMaxPool3d(2, {.output_size = 3}));
  const Sizes rows{2, 4};
#define LAYER(Name) m[#Name] = on(rows, nn::Name())
  LAYER(ReLU), LAYER(ReLU6), LAYER(SELU), LAYER(SiLU), LAYER(Mish), LAYER(Tanh), LAYER(Sigmoid), LAYER(Hardsigmoid);
  LAYER(Hardswish), LAYER(LogSigmoid), LAYER(Softsign), LAYER(Tanhshrink), LAYER(Identity), LAYER(GELU), LAYER(ELU);
  LAYER(CELU), LAYER(LeakyReLU), LAYER(Softshrink), LAYER(Hardshrink), LAYER(GLU), LAYER(Softplus), LAYER(Hardtanh);
  LAYER(RReLU), LAYER(PReLU), LAYER(Dropout), LAYER(AlphaDropout), LAYER(FeatureAlphaDropout), LAYER(Softmax);
  LAYER(LogSoftmax), LAYER(Softmin);
#undef LAYER
  m["Threshold"] = on(rows, nn::Threshold{0.1, 0});
  m["Flatten"] = on({2, 4, 3}, nn::Flatten());
  m["Unflatten"] = on(rows, nn::Unflatten(1, {2, 2}));
  m["Linear"] = on(rows, nn::Linear(4, 3));
  m["Bilinear"] = [](DType t) { return nn::Bilinear(4, 4, 3)(some({2, 4}, t), some({2, 4}, t)); };
  const Tensor labels = from_list<std::int64_t>({0, 1});
  m["Embedding"] = [=](DType) { return nn::Embedding(5, 4)(labels); };
  m["EmbeddingBag"] = [=](DType) { return nn::EmbeddingBag(5, 4)(unsqueeze(labels, 0)); };
  m["LayerNorm"] = on(rows, nn::LayerNorm(4)), m["RMSNorm"] = on(rows, nn::RMSNorm(4));
  m["GroupNorm"] = on({2, 4, 3}, nn::GroupNorm(2, 4));
  m["LocalResponseNorm"] = [](DType t) { return nn::local_response_norm(some({2, 4, 3}, t), 2); };

  const Sizes steps{3, 2, 4};
  m["RNN"] = on(steps, [layer = nn::RNN(4, 4)](const Tensor& x) { return layer(x).output; });
  m["LSTM"] = on(steps, [layer = nn::LSTM(4, 4)](const Tensor& x) { return layer(x).output; });
  m["GRU"] = on(steps, [layer = nn::GRU(4, 4)](const Tensor& x) { return layer(x).output; });
  m["RNNCell"] = on(rows, nn::RNNCell(4, 4));
  m["RNNCell of relu"] = on(rows, nn::RNNCell(4, 4, nn::RNN::Nonlinearity::relu));
  m["LSTMCell"] = on(rows, [cell = nn::LSTMCell(4, 4)](const Tensor& x) { return cell(x).h; });
  m["LSTMCell's cells"] = on(rows, [cell = nn::LSTMCell(4, 4)](const Tensor& x) { return cell(x).c; });
  m["GRUCell"] = on(rows, nn::GRUCell(4, 4));
  const nn::MultiheadAttention attention(4, 2);
  m["MultiheadAttention"] = on(steps, [=](const Tensor& x) { return attention(x, x, x).output; });
  m["MultiheadAttention's weights"] = on(steps, [=](const Tensor& x) { return attention(x, x, x).weights; });
  const nn::TransformerOptions narrow{.dim_feedforward = 8};
  const nn::TransformerOptions first{.dim_feedforward = 8, .norm_first = true};
  const auto decode = [=](auto decoder) { return on(steps, [=](const Tensor& x) { return decoder(x, x); }); };
  m["TransformerEncoderLayer"] = on(steps, nn::TransformerEncoderLayer(4, 2, narrow));
  m["TransformerEncoderLayer with norm_first"] = on(steps, nn::TransformerEncoderLayer(4, 2, first));
  m["TransformerDecoderLayer"] = decode(nn::TransformerDecoderLayer(4, 2, narrow));
  m["TransformerDecoderLayer with norm_first"] = decode(nn::TransformerDecoderLayer(4, 2, first));
  m["TransformerEncoder"] = on(steps, nn::TransformerEncoder(nn::TransformerEncoderLayer(4, 2, narrow), 2));
  m["TransformerDecoder"] = decode(nn::TransformerDecoder(nn::TransformerDecoderLayer(4, 2, narrow), 2));
  m["Transformer"] = decode(nn::Transformer(4, 2, 1, 1, narrow));

  const Sizes image{1, 4, 4, 4};
  using Mode = nn::Interpolation;
  const auto upsampled = [](Mode mode) { return nn::Upsample({.scale_factor = {2}, .mode = mode}); };
  m["Upsample"] = on(image, upsampled(Mode::nearest));
  m["Upsample, linear"] = on({1, 2, 4}, upsampled(Mode::linear));
  m["Upsample, bilinear"] = on(image, upsampled(Mode::bilinear));
  m["Upsample, bicubic"] = on(image, upsampled(Mode::bicubic));
  m["Upsample, trilinear"] = on({1, 2, 4, 4, 4}, upsampled(Mode::trilinear));
  m["UpsamplingNearest2d"] = on(image, nn::UpsamplingNearest2d({.scale_factor = {2}}));
  m["UpsamplingBilinear2d"] = on(image, nn::UpsamplingBilinear2d({.scale_factor = {2}}));
  m["Unfold"] = on(image, nn::Unfold(2)), m["Fold"] = on({1, 8, 9}, nn::Fold({4, 4}, 2));
  m["PixelShuffle"] = on(image, nn::PixelShuffle(2)), m["PixelUnshuffle"] = on(image, nn::PixelUnshuffle(2));
  m["ChannelShuffle"] = on(image, nn::ChannelShuffle(2));

#define TWO(Name, function) \
  m[#Name] = of_two([](const Tensor& a, const Tensor& b) -> Tensor { return nn::function(a, b); })
  TWO(CosineSimilarity, cosine_similarity), TWO(PairwiseDistance, pairwise_distance), TWO(L1Loss, l1_loss);
  TWO(MSELoss, mse_loss), TWO(SmoothL1Loss, smooth_l1_loss), TWO(HuberLoss, huber_loss);
  TWO(BCELoss, binary_cross_entropy), TWO(BCEWithLogitsLoss, binary_cross_entropy_with_logits);
  TWO(KLDivLoss, kl_div), TWO(PoissonNLLLoss, poisson_nll_loss), TWO(SoftMarginLoss, soft_margin_loss);
  TWO(HingeEmbeddingLoss, hinge_embedding_loss), TWO(MultiLabelSoftMarginLoss, multilabel_soft_margin_loss);
#undef TWO
  m["GaussianNLLLoss"] = of_two([](const Tensor& a, const Tensor& b) { return nn::gaussian_nll_loss(a, b, a); });
  m["TripletMarginLoss"] = of_two([](const Tensor& a, const Tensor& b) { return nn::triplet_margin_loss(a, b, b); });
  m["MarginRankingLoss"] = of_two([](const Tensor& a, const Tensor& b) { return nn::margin_ranking_loss(a, b, a); });
  m["CosineEmbeddingLoss"] =
      of_two([](const Tensor& a, const Tensor& b) { return nn::cosine_embedding_loss(a, b, select(a, 1, 0)); });
  m["CrossEntropyLoss"] = on(rows, [=](const Tensor& x) { return nn::cross_entropy(x, labels); });
  m["NLLLoss"] = on(rows, [=](const Tensor& x) { return nn::nll_loss(x, labels); });
  m["MultiMarginLoss"] = on(rows, [=](const Tensor& x) { return nn::multi_margin_loss(x, labels); });
  m["MultiLabelMarginLoss"] = on(rows, [=](const Tensor& x) {
    return nn::multilabel_margin_loss(x, from_list<std::int64_t>({{0, 1, -1, -1}, {1, -1, -1, -1}}));
  });
  m["CTCLoss"] = on({5, 1, 4}, [=](const Tensor& x) {
    return nn::ctc_loss(x, from_list<std::int64_t>({{1, 2}}), from_list<std::int64_t>({5}),
                        from_list<std::int64_t>({2}));
  });
  return m;
}

}  // namespace

TEST_CASE("layers give under autocast the dtypes that PyTorch's give") {
  std::map<std::string, Call> all = layers();
  for (const GoldenRow& row : golden) {
    CAPTURE(std::string(row.name));
    const auto found = all.find(row.name);
    REQUIRE(found != all.end());
    const Autocast scope(bf16);
    for (const DType given : {f32, bf16}) {
      CAPTURE(info(given).name);
      CHECK(std::string(info(found->second(given).dtype()).name) == wanted(row, given));
    }
    all.erase(found);
  }
  CHECK(all.empty());
}

namespace {
bool same_bits(const Tensor& a, const Tensor& b) { return a.dtype() == b.dtype() && all(a == b).item<bool>(); }
}  // namespace

TEST_CASE("a layer that is made of others has under autocast the bits of these, called one by one") {
  seed(1);
  const nn::TransformerOptions options{.dim_feedforward = 8, .dropout = 0};
  const Tensor x = some({3, 2, 4}, f32), rows = some({2, 4}, f32);
  const nn::TransformerEncoderLayer encoder(4, 2, options);
  const nn::TransformerDecoderLayer decoder(4, 2, options);
  const nn::SwiGLU gated(4, 6);
  const nn::GRU layer(4, 4);
  nn::GRUCell cell(4, 4);
  cell.weights = layer.layers.weights[0];
  const auto forward = [](const auto& m, const Tensor& x) { return m.linear2(relu(m.linear1(x))); };
  const Tensor wide = encoder(x);
  const Autocast scope(bf16);
  Tensor y = encoder.norm1(x + encoder.self_attn(x, x, x).output);
  y = encoder.norm2(y + forward(encoder, y));
  CHECK(same_bits(encoder(x), y));
  CHECK_FALSE(same_bits(encoder(x), wide));
  Tensor z = decoder.norm1(x + decoder.self_attn(x, x, x).output);
  z = decoder.norm2(z + decoder.multihead_attn(z, y, y).output);
  z = decoder.norm3(z + forward(decoder, z));
  CHECK(same_bits(decoder(x, y), z));
  CHECK(same_bits(gated(rows), gated.down(silu(gated.gate(rows)) * gated.up(rows))));
  CHECK(same_bits(cell(rows), squeeze(layer(unsqueeze(rows, 0)).output, 0)));
}
