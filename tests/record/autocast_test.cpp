// Autocast: every row of record/autocast.def, what a scope is, gradients, compiled functions, transforms.
#include <doctest/doctest.h>

#include <fstream>
#include <functional>
#include <map>
#include <weft/groups.hpp>
#include <weft/weft.hpp>

#include "record/autocast.hpp"
#include "tests/needs_compiler.hpp"

using namespace weft;
using namespace weft::test;

namespace {

constexpr DType bf16 = DType::bf16, f16 = DType::f16, f32 = DType::f32;

// Numbers in (0, 1), which every function here takes.
Tensor some(Sizes sizes, DType dtype) {
  Generator generator(3);
  return cast(uniform(sizes, 0.1, 0.9, generator), dtype);
}
// A matrix that can be inverted.
Tensor regular(DType dtype) { return cast(eye(4) * 3 + cast(some({4, 4}, dtype), f32), dtype); }

// A call of each function on the list, with floating operands of the first type and, where there are several that
// should become one, others of the second.
using Call = std::function<Tensor(DType, DType)>;
const std::map<std::string, Call>& calls() {
  static const std::map<std::string, Call> all = [] {
    std::map<std::string, Call> m;
    const auto one = [&](const char* name, Tensor (*f)(At)) {
      m[name] = [f](DType t, DType) { return f(some({4, 4}, t)); };
    };
    const auto loss = [&](const char* name, auto f) {
      m[name] = [f](DType t, DType other) { return f(some({4, 4}, t), some({4, 4}, other)); };
    };
    m["matmul"] = [](DType t, DType) { return matmul(some({3, 4}, t), some({4, 5}, t)); };
    m["grouped_matmul"] = [](DType t, DType) {
      return grouped_matmul(some({3, 4}, t), some({2, 4, 5}, t), from_list<std::int64_t>({1, 3}));
    };
    m["linear"] = [](DType t, DType) { return nn::linear(some({3, 4}, t), some({5, 4}, t), some({5}, t)); };
    m["conv1d"] = [](DType t, DType) { return conv1d(some({1, 2, 5}, t), some({3, 2, 3}, t), some({3}, t)); };
    m["conv2d"] = [](DType t, DType) { return conv2d(some({1, 2, 5, 5}, t), some({3, 2, 3, 3}, t), some({3}, t)); };
    m["conv3d"] = [](DType t, DType) { return conv3d(some({1, 2, 3, 3, 3}, t), some({3, 2, 2, 2, 2}, t)); };
    m["conv_transpose1d"] = [](DType t, DType) { return conv_transpose1d(some({1, 2, 5}, t), some({2, 3, 3}, t)); };
    m["conv_transpose2d"] = [](DType t, DType) {
      return conv_transpose2d(some({1, 2, 5, 5}, t), some({2, 3, 3, 3}, t));
    };
    m["conv_transpose3d"] = [](DType t, DType) {
      return conv_transpose3d(some({1, 2, 3, 3, 3}, t), some({2, 3, 2, 2, 2}, t));
    };
    m["conv"] = [](DType t, DType) { return nn::Conv2d(2, 3, 3)(some({1, 2, 5, 5}, t)); };
    m["conv_transpose"] = [](DType t, DType) { return nn::ConvTranspose2d(2, 3, 3)(some({1, 2, 5, 5}, t)); };
    m["scaled_dot_product_attention"] = [](DType t, DType) {
      const Tensor x = some({1, 2, 3, 4}, t);
      return nn::scaled_dot_product_attention(x, x, x);
    };
    m["varlen_attention"] = [](DType t, DType) {
      const Tensor x = some({3, 2, 4}, t), offsets = arange(2) * 3;
      return nn::varlen_attention(x, x, x, offsets, offsets);
    };
    m["prelu"] = [](DType t, DType) { return prelu(some({3, 4}, t), some({4}, t)); };
    m["RNN"] = [](DType t, DType) { return nn::RNN(4, 3)(some({2, 1, 4}, t)).output; };
    m["LSTM"] = [](DType t, DType) { return nn::LSTM(4, 3)(some({2, 1, 4}, t)).output; };
    m["GRU"] = [](DType t, DType) { return nn::GRU(4, 3)(some({2, 1, 4}, t)).output; };
    m["RNNCell"] = [](DType t, DType) { return nn::RNNCell(4, 3)(some({2, 4}, t)); };
    m["LSTMCell"] = [](DType t, DType) { return nn::LSTMCell(4, 3)(some({2, 4}, t)).h; };
    m["GRUCell"] = [](DType t, DType) { return nn::GRUCell(4, 3)(some({2, 4}, t)); };
    // What is normalized at its end is f32: these are not.
    constexpr nn::TransformerOptions first{.dim_feedforward = 8, .norm_first = true};
    const nn::TransformerEncoderLayer encoder_layer(4, 2, first);
    const nn::TransformerDecoderLayer decoder_layer(4, 2, first);
    nn::Transformer transformer(4, 2, 1, 1, first);
    transformer.encoder.norm.reset(), transformer.decoder.norm.reset();
    const auto pair = [&](const char* name, auto layer) {
      m[name] = [=](DType, DType) { return layer(some({3, 1, 4}, bf16), some({3, 1, 4}, bf16)); };
    };
    pair("TransformerEncoderLayer", [=](const Tensor& x, const Tensor&) { return encoder_layer(x); });
    pair("TransformerEncoder",
         [encoder = nn::TransformerEncoder(encoder_layer, 2)](const Tensor& x, const Tensor&) { return encoder(x); });
    pair("TransformerDecoderLayer", decoder_layer);
    pair("TransformerDecoder", nn::TransformerDecoder(decoder_layer, 2));
    pair("Transformer", transformer);
    m["SwiGLU"] = [](DType t, DType) { return nn::SwiGLU(4, 6)(some({2, 4}, t)); };
    m["einsum"] = [](DType t, DType) { return einsum("ij,jk->ik", {some({3, 4}, t), some({4, 5}, t)}); };
    m["matrix_power"] = [](DType t, DType) { return linalg::matrix_power(some({4, 4}, t), 2); };
    m["multihead_attention"] = [](DType t, DType) {
      const Tensor x = some({3, 1, 4}, t);
      return nn::MultiheadAttention(4, 2)(x, x, x).output;
    };
    one("asin", asin), one("acos", acos), one("cosh", cosh), one("erfinv", erfinv), one("exp", exp);
    one("expm1", expm1), one("log", log), one("log10", log10), one("log1p", log1p), one("log2", log2);
    one("reciprocal", reciprocal), one("rsqrt", rsqrt), one("sinh", sinh), one("tan", tan), one("trace", trace);
    m["pow"] = [](DType t, DType) { return pow(some({4}, t), 2); };
    m["softplus"] = [](DType t, DType) { return softplus(some({4}, t)); };
    m["polar"] = [](DType t, DType) { return fft::polar(some({4}, t), some({4}, t)).real; };
    m["sum"] = [](DType t, DType) { return sum(some({4, 4}, t), 1); };
    m["prod"] = [](DType t, DType) { return prod(some({4, 4}, t)); };
    m["cumsum"] = [](DType t, DType) { return cumsum(some({4, 4}, t), 0); };
    m["cumprod"] = [](DType t, DType) { return cumprod(some({4, 4}, t), 0); };
    m["norm"] = [](DType t, DType) { return norm(some({4, 4}, t)); };
    m["vector_norm"] = [](DType t, DType) { return linalg::vector_norm(some({4, 4}, t)); };
    m["matrix_norm"] = [](DType t, DType) { return linalg::matrix_norm(some({4, 4}, t)); };
    m["renorm"] = [](DType t, DType) { return renorm(some({4, 4}, t), 2, 0, 0.5); };
    m["normalize"] = [](DType t, DType) { return nn::normalize(some({4, 4}, t)); };
    m["softmax"] = [](DType t, DType) { return softmax(some({4, 4}, t), 1); };
    m["log_softmax"] = [](DType t, DType) { return log_softmax(some({4, 4}, t), 1); };
    m["layer_norm"] = [](DType t, DType) { return nn::layer_norm(some({4, 4}, t), some({4}, f32), some({4}, f32)); };
    m["logsumexp"] = [](DType t, DType) { return logsumexp(some({4, 4}, t), 1); };
    m["rms_norm"] = [](DType t, DType) { return nn::rms_norm(some({4, 4}, t), some({4}, f32)); };
    m["GroupNorm"] = [](DType t, DType) { return nn::GroupNorm(2, 4)(some({2, 4, 3}, t)); };
    m["local_response_norm"] = [](DType t, DType) { return nn::local_response_norm(some({2, 4, 3}, t), 2); };
    m["group_norm"] = [](DType t, DType) { return nn::group_norm(some({2, 4, 3}, t), 2); };
    m["quantile"] = [](DType t, DType) { return quantile(some({4, 4}, t), 0.5, 1); };
    m["nanquantile"] = [](DType t, DType) { return nanquantile(some({4, 4}, t), 0.5, 1); };
    loss("cdist", [](const Tensor& a, const Tensor& b) { return cdist(a, b); });
    m["pdist"] = [](DType t, DType) { return nn::pdist(some({4, 4}, t)); };
    loss("dist", [](const Tensor& a, const Tensor& b) { return dist(a, b); });
    loss("pairwise_distance", [](const Tensor& a, const Tensor& b) { return nn::pairwise_distance(a, b); });
    loss("cosine_similarity", [](const Tensor& a, const Tensor& b) { return nn::cosine_similarity(a, b); });
    const auto labels = [](std::initializer_list<std::int64_t> list) { return from_list<std::int64_t>(list); };
    m["cross_entropy"] = [=](DType t, DType) { return nn::cross_entropy(some({4, 4}, t), labels({0, 1, 2, 3})); };
    m["nll_loss"] = [=](DType t, DType) { return nn::nll_loss(some({4, 4}, t), labels({0, 1, 2, 3})); };
    m["linear_cross_entropy"] = [=](DType t, DType) {
      return nn::linear_cross_entropy(some({4, 6}, t), some({5, 6}, t), labels({0, 1, 2, 3}));
    };
    loss("l1_loss", [](const Tensor& a, const Tensor& b) { return nn::l1_loss(a, b); });
    loss("mse_loss", [](const Tensor& a, const Tensor& b) { return nn::mse_loss(a, b); });
    loss("smooth_l1_loss", [](const Tensor& a, const Tensor& b) { return nn::smooth_l1_loss(a, b); });
    loss("huber_loss", [](const Tensor& a, const Tensor& b) { return nn::huber_loss(a, b); });
    loss("soft_margin_loss", [](const Tensor& a, const Tensor& b) { return nn::soft_margin_loss(a, b); });
    loss("binary_cross_entropy", [](const Tensor& a, const Tensor& b) { return nn::binary_cross_entropy(a, b); });
    loss("binary_cross_entropy_with_logits",
         [](const Tensor& a, const Tensor& b) { return nn::binary_cross_entropy_with_logits(a, b); });
    loss("kl_div", [](const Tensor& a, const Tensor& b) { return nn::kl_div(a, b); });
    loss("poisson_nll_loss", [](const Tensor& a, const Tensor& b) { return nn::poisson_nll_loss(a, b); });
    loss("gaussian_nll_loss", [](const Tensor& a, const Tensor& b) { return nn::gaussian_nll_loss(a, b, a); });
    loss("multilabel_soft_margin_loss",
         [](const Tensor& a, const Tensor& b) { return nn::multilabel_soft_margin_loss(a, b); });
    loss("margin_ranking_loss", [](const Tensor& a, const Tensor& b) { return nn::margin_ranking_loss(a, b, a); });
    loss("hinge_embedding_loss", [](const Tensor& a, const Tensor& b) { return nn::hinge_embedding_loss(a, b); });
    loss("cosine_embedding_loss",
         [](const Tensor& a, const Tensor& b) { return nn::cosine_embedding_loss(a, b, select(a, 1, 0)); });
    loss("triplet_margin_loss", [](const Tensor& a, const Tensor& b) { return nn::triplet_margin_loss(a, b, b); });
    m["multi_margin_loss"] = [=](DType t, DType) {
      return nn::multi_margin_loss(some({4, 4}, t), labels({0, 1, 2, 3}));
    };
    m["multilabel_margin_loss"] = [=](DType t, DType) {
      return nn::multilabel_margin_loss(some({4}, t), labels({0, 1, -1, -1}));
    };
    m["ctc_loss"] = [=](DType t, DType) {
      return nn::ctc_loss(some({5, 1, 4}, t), reshape(labels({1, 2}), {1, 2}), labels({5}), labels({2}));
    };
    m["grid_sample"] = [](DType t, DType other) {
      return nn::grid_sample(some({1, 2, 4, 4}, t), some({1, 3, 3, 2}, other));
    };
    m["interpolate"] = [](DType t, DType) { return nn::interpolate(some({1, 2, 4, 4}, t), {.scale_factor = {2}}); };
    m["avg_pool3d"] = [](DType t, DType) { return avg_pool3d(some({1, 2, 4, 4, 4}, t), 2); };
    m["max_pool3d"] = [](DType t, DType) { return max_pool3d(some({1, 2, 4, 4, 4}, t), 2); };
    m["adaptive_avg_pool3d"] = [](DType t, DType) { return adaptive_avg_pool3d(some({1, 2, 4, 4, 4}, t), 2); };
    m["adaptive_max_pool3d"] = [](DType t, DType) { return adaptive_max_pool3d(some({1, 2, 4, 4, 4}, t), 2); };
    m["stft"] = [](DType t, DType) { return stft(some({16}, t), 8).real; };
    m["fft"] = [](DType t, DType) { return fft::fft(some({8}, t)).real; };
    m["ifft"] = [](DType t, DType) { return fft::ifft({some({8}, t), some({8}, t)}).real; };
    m["fftn"] = [](DType t, DType) { return fft::fftn(some({4, 4}, t)).real; };
    m["ifftn"] = [](DType t, DType) { return fft::ifftn({some({4, 4}, t), some({4, 4}, t)}).real; };
    m["rfft"] = [](DType t, DType) { return fft::rfft(some({8}, t)).real; };
    m["irfft"] = [](DType t, DType) { return fft::irfft({some({5}, t), some({5}, t)}); };
    m["rfftn"] = [](DType t, DType) { return fft::rfftn(some({4, 4}, t)).real; };
    m["irfftn"] = [](DType t, DType) { return fft::irfftn({some({4, 4}, t), some({4, 4}, t)}); };
    m["hfft"] = [](DType t, DType) { return fft::hfft({some({5}, t), some({5}, t)}); };
    m["ihfft"] = [](DType t, DType) { return fft::ihfft(some({8}, t)).real; };
    const auto symmetric = [](DType t) { return cast(eye(4) * 2, t); };
    m["cholesky"] = [=](DType t, DType) { return linalg::cholesky(symmetric(t)); };
    m["cholesky_solve"] = [=](DType t, DType) { return linalg::cholesky_solve(some({4, 2}, t), symmetric(t)); };
    m["solve"] = [](DType t, DType) { return linalg::solve(regular(t), some({4, 2}, t)); };
    m["solve_triangular"] = [](DType t, DType) { return linalg::solve_triangular(regular(t), some({4, 2}, t)); };
    m["inv"] = [](DType t, DType) { return linalg::inv(regular(t)); };
    m["pinv"] = [](DType t, DType) { return linalg::pinv(regular(t)); };
    m["lu"] = [](DType t, DType) { return linalg::lu(regular(t)).u; };
    m["lu_factor"] = [](DType t, DType) { return linalg::lu_factor(regular(t)).lu; };
    m["lu_solve"] = [=](DType t, DType) {
      return linalg::lu_solve(symmetric(t), labels({0, 1, 2, 3}), some({4, 2}, t));
    };
    m["qr"] = [](DType t, DType) { return linalg::qr(regular(t)).r; };
    m["svd"] = [](DType t, DType) { return linalg::svd(regular(t)).s; };
    m["svdvals"] = [](DType t, DType) { return linalg::svdvals(regular(t)); };
    m["eig"] = [](DType t, DType) { return linalg::eig(regular(t)).values.real; };
    m["eigvals"] = [](DType t, DType) { return linalg::eigvals(regular(t)).real; };
    m["eigh"] = [=](DType t, DType) { return linalg::eigh(symmetric(t)).eigenvalues; };
    m["eigvalsh"] = [=](DType t, DType) { return linalg::eigvalsh(symmetric(t)); };
    m["lstsq"] = [](DType t, DType) { return linalg::lstsq(regular(t), some({4, 2}, t)); };
    m["matrix_rank"] = [](DType t, DType) { return cast(linalg::matrix_rank(regular(t)), f32); };
    m["cond"] = [](DType t, DType) { return linalg::cond(regular(t)); };
    m["householder_product"] = [](DType t, DType) {
      return linalg::householder_product(some({4, 4}, t), some({4}, t));
    };
    m["tensorinv"] = [](DType t, DType) { return linalg::tensorinv(reshape(regular(t), {2, 2, 2, 2})); };
    m["tensorsolve"] = [](DType t, DType) {
      return linalg::tensorsolve(reshape(regular(t), {2, 2, 2, 2}), some({2, 2}, t));
    };
    loss("addcmul", [](const Tensor& a, const Tensor& b) { return addcmul(a, b, b); });
    loss("addcdiv", [](const Tensor& a, const Tensor& b) { return addcdiv(a, b, b); });
    loss("atan2", [](const Tensor& a, const Tensor& b) { return atan2(a, b); });
    loss("bilinear", [](const Tensor& a, const Tensor& b) { return nn::bilinear(a, b, some({2, 4, 4}, bf16)); });
    m["cross"] = [](DType t, DType other) { return linalg::cross(some({3}, t), some({3}, other)); };
    m["dot"] = [](DType t, DType other) { return dot(some({3}, t), some({3}, other)); };
    loss("tensordot", [](const Tensor& a, const Tensor& b) { return tensordot(a, b, 1); });
    loss("stack", [](const Tensor& a, const Tensor& b) { return stack({a, b}, 0); });
    loss("concat", [](const Tensor& a, const Tensor& b) { return concat({a, b}, 0); });
    const auto rows = labels({0, 1, 2, 3});
    loss("index_put", [=](const Tensor& a, const Tensor& b) { return index_put(a, {rows}, b); });
    loss("index_copy", [=](const Tensor& a, const Tensor& b) { return index_copy(a, 0, rows, b); });
    loss("scatter_add", [=](const Tensor& a, const Tensor& b) {
      return scatter_add(a, 0, expand(unsqueeze(rows, 1), {4, 4}), b);
    });
    return m;
  }();
  return all;
}

// Nothing of an element, sizes or bits differs.
bool same_bits(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && all((a == b) | (isnan(a) & isnan(b))).item<bool>();
}

struct Net {
  nn::Linear first{6, 8}, second{8, 3};
  Tensor operator()(const Tensor& x) const { return second(relu(first(x))); }
};
Tensor loss_of(const Net& net, const Tensor& x, const Tensor& y) { return nn::cross_entropy(net(x), y); }

}  // namespace

TEST_CASE("each function on the list of autocast casts as its row says"){
#define WEFT_AUTOCAST(name, rule)                                                                              \
  SUBCASE(#name) {                                                                                             \
    const auto found = calls().find(#name);                                                                    \
    REQUIRE_MESSAGE(found != calls().end(), "a row of autocast.def without a call here: " #name);              \
    const Autocast scope(bf16);                                                                                \
    const bool to_low = AutocastRule::rule == AutocastRule::low || AutocastRule::rule == AutocastRule::inside; \
    if (AutocastRule::rule == AutocastRule::widest) {                                                          \
      CHECK(found->second(bf16, f32).dtype() == f32);                                                          \
      CHECK(found->second(f32, bf16).dtype() == f32);                                                          \
      CHECK(found->second(bf16, bf16).dtype() == bf16);                                                        \
    } else {                                                                                                   \
      const Tensor result = found->second(to_low ? f32 : bf16, to_low ? f32 : bf16);                           \
      CHECK(result.dtype() == (to_low ? bf16 : f32));                                                          \
      CHECK(all(isfinite(result)).item<bool>());                                                               \
    }                                                                                                          \
  }
#include "record/autocast.def"
}

TEST_CASE("a function that is in no row takes its operands as they are, and so does what it calls") {
  const Autocast scope(bf16);
  const Tensor into = zeros({4}, {bf16}), values = ones({2});
  const Tensor at = from_list<std::int64_t>({1, 2});
  CHECK(scatter_add(into, 0, at, values).dtype() == f32);
  CHECK(index_put(into, {at}, values).dtype() == f32);
  const CalledOperation other("in_no_row");
  CHECK(scatter_add(into, 0, at, values).dtype() == bf16);
  CHECK(index_put(into, {at}, values).dtype() == bf16);
}

TEST_CASE("linear_cross_entropy under autocast multiplies in 16 bits and gives the loss in f32") {
  struct Given {
    Tensor x = some({4, 6}, f32), weight = some({5, 6}, f32), bias = some({5}, f32);
    Tensor labels = from_list<std::int64_t>({0, 1, 2, 3});
  };
  static constexpr auto loss = [](const Given& g) {
    return nn::linear_cross_entropy(g.x, g.weight, g.labels, {.bias = g.bias});
  };
  static constexpr auto slopes = [](const Given& g) {
    return grad([&](const Tensor& w) { return loss({g.x, w, g.bias, g.labels}); }, g.weight);
  };
  const Given given;
  for (const DType type : {bf16, f16}) {
    const auto of_logits = [&](const Tensor& weight) {
      const Tensor product = matmul(cast(given.x, type), transpose(cast(weight, type)));
      return nn::cross_entropy(cast(product, f32) + cast(cast(given.bias, type), f32), given.labels);
    };
    const Tensor wanted = of_logits(given.weight), slope = grad(of_logits, given.weight);
    const Autocast scope(type);
    for (const Tensor& found : {loss(given), compile(loss)(given)}) {
      CHECK(found.dtype() == f32);
      CHECK(max(abs(found - wanted)).item<float>() < 1e-5f);
    }
    for (const Tensor& found : {slopes(given), compile(slopes)(given)}) {
      CHECK(found.dtype() == f32);
      CHECK(max(abs(found - slope)).item<float>() < (type == bf16 ? 4e-3f : 5e-4f));  // its factors are rounded
    }
    const Tensor low = cast(given.x, type), weight = cast(given.weight, type);
    CHECK(nn::linear_cross_entropy(low, weight, given.labels, {.reduction = nn::Reduction::none}).dtype() == f32);
  }
  CHECK(nn::linear_cross_entropy(cast(given.x, bf16), cast(given.weight, bf16), given.labels).dtype() == bf16);
}

TEST_CASE("a product under autocast has the bits of the product of what was cast") {
  const Tensor a = some({5, 7}, f32), b = some({7, 4}, f32);
  for (const DType type : {bf16, f16}) {
    const Tensor by_hand = matmul(cast(a, type), cast(b, type));
    const Autocast scope(type);
    CHECK(same_bits(matmul(a, b), by_hand));
  }
}

TEST_CASE("scopes of autocast nest, end, and leave f64, integers and literals alone") {
  const Tensor a = some({3, 3}, f32);
  CHECK(matmul(a, a).dtype() == f32);
  {
    const Autocast scope(bf16);
    CHECK(matmul(a, a).dtype() == bf16);
    {
      const Autocast off(Autocast::off);
      CHECK(matmul(a, a).dtype() == f32);
      const Autocast inner(f16);
      CHECK(matmul(a, a).dtype() == f16);
    }
    CHECK(matmul(a, a).dtype() == bf16);
    CHECK((a + a).dtype() == f32);
    CHECK(relu(matmul(a, a)).dtype() == bf16);
    CHECK((1 / matmul(a, a)).dtype() == f32);
    CHECK((matmul(a, a) / 2).dtype() == bf16);
    CHECK(exp(cast(a, DType::f64)).dtype() == DType::f64);
    CHECK(matmul(cast(a, DType::f64), cast(a, DType::f64)).dtype() == DType::f64);
    CHECK(matmul(cast(a, DType::i64), cast(a, DType::i64)).dtype() == DType::i64);
    CHECK(gelu(matmul(a, a)).dtype() == bf16);
    CHECK(mean(matmul(a, a)).dtype() == bf16);
    CHECK(sum(matmul(a, a), {}, false, bf16).dtype() == bf16);
    CHECK(var(matmul(a, a)).dtype() == bf16);
  }
  CHECK(matmul(a, a).dtype() == f32);
  CHECK_THROWS_WITH_AS(Autocast(DType::f64), doctest::Contains("takes bf16, f16, or off (f32), it is given f64"),
                       Error);
  CHECK_THROWS_WITH_AS(compile([](const Tensor& x) { return x; }, {.autocast = DType::i64}),
                       doctest::Contains("takes bf16, f16, or off (f32), it is given i64"), Error);
  CHECK(matmul(a, a).dtype() == f32);
}

TEST_CASE("gradients under autocast have the parameters' dtype, and are those of casts by hand") {
  weft::seed(1);
  const Net net;
  const Tensor x = some({4, 6}, f32), y = from_list<std::int64_t>({0, 1, 2, 0});
  const auto by_hand = value_and_grad(
      [&](const Net& net) {
        const auto low = [](const Tensor& each) { return cast(each, bf16); };
        const Tensor hidden = relu(nn::linear(low(x), low(net.first.weight), low(net.first.bias)));
        return nn::cross_entropy(cast(nn::linear(hidden, low(net.second.weight), low(net.second.bias)), f32), y);
      },
      net);
  const auto check = [&](const auto& found) {
    CHECK(same_bits(found.value, by_hand.value));
    CHECK(found.value.dtype() == f32);
    tree::for_each(found.gradients, by_hand.gradients, [&](const Param& a, const Param& b) {
      CHECK(a->dtype() == f32);
      CHECK(same_bits(a, b));
    });
  };
  SUBCASE("the loss in a scope") {
    check(value_and_grad(
        [&](const Net& net) {
          const Autocast scope(bf16);
          return loss_of(net, x, y);
        },
        net));
  }
  SUBCASE("the whole gradient in a scope") {
    const Autocast scope(bf16);
    check(value_and_grad([&](const Net& net) { return loss_of(net, x, y); }, net));
  }
}

TEST_CASE("a weight that is used twice in a scope is cast once") {
  const Tensor w = some({3, 3}, f32), x = some({2, 3}, f32);
  const auto f = [&](const Tensor& w) {
    const Autocast scope(bf16);
    return sum(matmul(matmul(x, w), w));
  };
  // One cast: the two gradients are added in bf16, and the sum is cast.
  const auto by_hand = [&](const Tensor& w) {
    const Tensor low = cast(w, bf16);
    return sum(cast(matmul(matmul(cast(x, bf16), low), low), f32));
  };
  CHECK(same_bits(grad(f, w), grad(by_hand, w)));
}

TEST_CASE("a compiled function is compiled for the autocast that it is called under" * needs(a_compiler)) {
  weft::seed(1);
  const Net net;
  const Tensor x = some({4, 6}, f32);
  auto f = compile([](const Net& net, const Tensor& x) { return net(x); });
  CHECK(f(net, x).dtype() == f32);
  for (int i = 0; i < 3; ++i) {
    const Autocast scope(bf16);
    CHECK(f(net, x).dtype() == bf16);
    CHECK(max(abs(f(net, x) - net(x))).item<double>() < 0.02);
  }
  CHECK(f(net, x).dtype() == f32);
  const Explanation e = explain(f, net, x);
  REQUIRE(e.recompiles.size() == 1);
  CHECK(e.recompiles.back() == "autocast was off, is bf16");
  const Autocast scope(f16);
  CHECK(f(net, x).dtype() == f16);
}

TEST_CASE("a compiled function that is differentiated outside computes its derivative in the scope's types" *
          needs(a_compiler)) {
  weft::seed(1);
  const Net net;
  const Tensor x = some({4, 6}, f32), y = from_list<std::int64_t>({0, 1, 2, 0});
  auto f = compile([](const Net& net, const Tensor& x) { return net(x); });
  const Autocast scope(bf16);
  for (int i = 0; i < 2; ++i) {
    const auto found = value_and_grad([&](const Net& net) { return nn::cross_entropy(f(net, x), y); }, net);
    const auto plain = value_and_grad([&](const Net& net) { return loss_of(net, x, y); }, net);
    CHECK(std::abs(found.value.item<double>() - plain.value.item<double>()) < 1e-2);
    tree::for_each(found.gradients, plain.gradients, [&](const Param& a, const Param& b) {
      CHECK(a->dtype() == f32);
      CHECK(max(abs(a - b)).item<double>() < 1e-2);
    });
  }
}

TEST_CASE("autocast as an option of compile" * needs(a_compiler)) {
  weft::seed(1);
  const Net net;
  const Tensor x = some({4, 6}, f32);
  const auto forward = [](const Net& net, const Tensor& x) { return net(x); };
  auto f = compile(forward, {.autocast = bf16});
  CHECK(f(net, x).dtype() == bf16);
  {
    const Autocast scope(f16);
    CHECK(f(net, x).dtype() == bf16);
    CHECK(compile(forward, {.autocast = Autocast::off})(net, x).dtype() == f32);
  }
  CHECK(explain(f, net, x).specializations == 1);
  {
    const StanceScope eager(Stance::force_eager);
    CHECK(f(net, x).dtype() == bf16);
  }
  CHECK(net(x).dtype() == f32);
  // Inside another one its own option counts.
  static auto inner = compile(forward, {.autocast = bf16});
  auto outer = compile([](const Net& net, const Tensor& x) { return inner(net, x) + net(x); });
  CHECK(outer(net, x).dtype() == f32);
  CHECK(verify(f, net, x).same());
}

TEST_CASE("a compiled training step under autocast gives about the eager one" * needs(a_compiler)) {
  weft::seed(1);
  Net eager, compiled = eager;
  optim::SGD eager_opt(eager, {.lr = 0.5}), compiled_opt(compiled, {.lr = 0.5});
  const Tensor x = some({4, 6}, f32), y = from_list<std::int64_t>({0, 1, 2, 0});
  const auto step = [](Net& net, optim::SGD& opt, const Tensor& x, const Tensor& y) {
    auto [loss, gradients] = value_and_grad([&](const Net& net) { return loss_of(net, x, y); }, net);
    opt.update(net, gradients);
    return loss;
  };
  auto fast = compile(step, {.autocast = bf16});
  for (int i = 0; i < 5; ++i) {
    const Tensor b = fast(compiled, compiled_opt, x, y);
    const Autocast scope(bf16);
    const Tensor a = step(eager, eager_opt, x, y);
    CHECK(std::abs(a.item<double>() - b.item<double>()) < 1e-2);
    CHECK(b.dtype() == f32);
    CHECK(compiled.first.weight->dtype() == f32);
  }
}

TEST_CASE("autocast with vmap, jvp, scan and grad in any order") {
  const Tensor w = some({3, 3}, f32), xs = some({5, 3}, f32);
  const auto f = [&](const Tensor& x) { return sum(tanh(matmul(x, w))); };
  const Autocast scope(bf16);
  const Tensor rows = vmap(f)(xs);
  CHECK(rows.dtype() == f32);
  CHECK(same_bits(rows, sum(tanh(matmul(xs, w)), 1)));
  const Tensor gradients = vmap([&](const Tensor& x) { return grad(f, x); })(xs);
  CHECK(gradients.dtype() == f32);
  CHECK(gradients.shape() == xs.shape());
  for (int i = 0; i < 5; ++i) CHECK(same_bits(select(gradients, 0, i), grad(f, select(xs, 0, i))));
  const auto pushed = jvp(f, select(xs, 0, 0), ones({3}));
  CHECK(pushed.value.dtype() == f32);
  CHECK(std::abs(pushed.tangent.item<double>() - sum(grad(f, select(xs, 0, 0))).item<double>()) < 2e-2);
  const auto [last, all] = scan(
      [&](const Tensor& h, const Tensor& x) {
        const Tensor next = cast(tanh(matmul(h + x, w)), f32);
        return std::pair{next, matmul(next, w)};
      },
      zeros({3}), xs);
  CHECK(last.dtype() == f32);
  CHECK(all.dtype() == bf16);
}

TEST_CASE("a scope around many steps does not keep the weights of each") {
  const auto resident = [] {
    std::ifstream file("/proc/self/statm");
    std::int64_t all = 0, pages = 0;
    file >> all >> pages;
    return pages * 4096;
  };
  const Autocast scope(bf16);
  Tensor w = some({512, 512}, f32);
  const Tensor x = some({1, 512}, f32);
  const auto run = [&](int steps) {
    for (int i = 0; i < steps; ++i) w = (w - grad([&](const Tensor& w) { return sum(matmul(x, w)); }, w) * 1e-3).eval();
  };
  run(150);
  const std::int64_t before = resident();
  run(150);
  CHECK(resident() < before + 100 * 1000 * 1000);
}
