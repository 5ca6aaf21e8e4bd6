// Attention that is written by hand, and what of it fuse_attention finds: each form gives the numbers that it gave.
#include <cmath>
#include <limits>

#include "fusions/attention.hpp"
#include "tests/loops/support.hpp"
#include "weft/backends.hpp"
#include "weft/fusions.hpp"

using namespace weft;
using loops_test::check_close;
using loops_test::noise;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
using Tensors =
    std::vector<Tensor>;  // query [2, 3, 5, 4], key, value [2, 3, 6, ...], mask: bool [5, 6], bias [3, 5, 6]

struct Registered {
  Registered() { register_pass(PassStage::traced, "fuse_attention", "1", fuse_attention); }
  ~Registered() { unregister_pass("fuse_attention"); }
};

Tensor keys(const Tensors& x) { return transpose(x[1], -1, -2); }

struct Form {
  const char* name;
  Tensor (*attend)(const Tensors& x);
  bool is_found = true;
};
const Form forms[] = {
    {"plain", [](const Tensors& x) { return matmul(softmax(matmul(x[0], keys(x)), -1), x[2]); }},
    {"scaled after", [](const Tensors& x) { return matmul(softmax(matmul(x[0], keys(x)) * 0.5, -1), x[2]); }},
    {"divided after", [](const Tensors& x) { return matmul(softmax(matmul(x[0], keys(x)) / 2, -1), x[2]); }},
    {"a query scaled before", [](const Tensors& x) { return matmul(softmax(matmul(x[0] * 0.5, keys(x)), -1), x[2]); }},
    {"both scaled before",
     [](const Tensors& x) { return matmul(softmax(matmul(x[0] / 1.5, keys(x) * 0.7), -1), x[2]); }},
    {"keys scaled, then transposed",
     [](const Tensors& x) { return matmul(softmax(matmul(x[0], transpose(x[1] * 0.7)), -1), x[2]); }},
    {"keys by another permutation",
     [](const Tensors& x) {
       const Tensor lying = permute(x[1], {0, 2, 1, 3}) + 0;  // [N, S, H, E]
       return matmul(softmax(matmul(x[0], permute(lying, {0, 2, 3, 1})) * 0.5, -1), x[2]);
     }},
    {"heads that share keys, repeated",
     [](const Tensors& x) {
       const Tensor k = repeat_interleave(narrow(x[1], 1, 0, 1), 3, 1),
                    v = repeat_interleave(narrow(x[2], 1, 0, 1), 3, 1);
       return matmul(softmax(matmul(x[0], transpose(k)) * 0.5, -1), v);
     }},
    {"heads that share keys, by broadcasting",
     [](const Tensors& x) {
       const Tensor k = narrow(x[1], 1, 0, 1), v = narrow(x[2], 1, 0, 1);
       return matmul(softmax(matmul(x[0], transpose(k)) * 0.5, -1), v);
     }},
    {"where",
     [](const Tensors& x) { return matmul(softmax(where(x[3], matmul(x[0], keys(x)) * 0.5, -infinity), -1), x[2]); }},
    {"where of a large number, scaled after",
     [](const Tensors& x) { return matmul(softmax(where(x[3], matmul(x[0], keys(x)), -1e9) * 0.5, -1), x[2]); }},
    {"masked_fill",
     [](const Tensors& x) {
       return matmul(softmax(masked_fill(matmul(x[0], keys(x)) / 2, ~x[3], -infinity), -1), x[2]);
     }},
    {"a mask that is added",
     [](const Tensors& x) { return matmul(softmax(matmul(x[0], keys(x)) * 0.5 + x[4], -1), x[2]); }},
    {"a mask added first, scaled after",
     [](const Tensors& x) { return matmul(softmax((x[4] + matmul(x[0], keys(x))) * 0.5, -1), x[2]); }},
    {"a penalty that is subtracted",
     [](const Tensors& x) {
       return matmul(softmax(matmul(x[0], keys(x)) * 0.5 - cast(~x[3], DType::f64) * 1e9, -1), x[2]);
     }},
    {"two masks and a bias",
     [](const Tensors& x) {
       const Tensor causal = unsqueeze(arange(x[0].size(2)), 1) >= arange(x[1].size(2));
       const Tensor scores = where(causal, matmul(x[0], keys(x)) * 0.5 + x[4] + x[4] * 2, -infinity);
       return matmul(softmax(where(x[3], scores, -infinity), -1), x[2]);
     }},
    {"weights cast",
     [](const Tensors& x) {
       const auto half = [](const Tensor& x) { return cast(x, DType::f16); };
       const Tensor scores = cast(matmul(half(x[0]), half(keys(x))), DType::f32) * 0.5;
       return cast(matmul(cast(softmax(scores, -1), DType::f16), half(x[2])), DType::f64);
     }},
    {"scaled by a number that 16 bits do not hold",
     [](const Tensors& x) {
       const auto half = [](const Tensor& x) { return cast(x, DType::f16); };
       const Tensor scores = matmul(half(x[0]) * 0.9, half(keys(x))) / 1.7;
       return cast(matmul(softmax(scores, -1), half(x[2])), DType::f64);
     }},
    {"einsum",
     [](const Tensors& x) {
       const Tensor scores = einsum("bhqd,bhkd->bhqk", {x[0], x[1]}) / 2;
       return einsum("bhqk,bhkd->bhqd", {softmax(scores, -1), x[2]});
     }},
    {"einsum of heads after lengths",
     [](const Tensors& x) {
       const Tensor q = transpose(x[0], 1, 2) + 0, k = transpose(x[1], 1, 2) + 0, v = transpose(x[2], 1, 2) + 0;
       const Tensor scores = einsum("bqhd,bkhd->bhqk", {q * 0.5, k});
       return einsum("bhqk,bkhd->bqhd", {softmax(where(x[3], scores, -1e9), -1), v});
     }},
    {"einsum of keys and values first",
     [](const Tensors& x) {
       const Tensor scores = einsum("bhkd,bhqd->bhqk", {x[1], x[0]}) * 0.5 + x[4];
       return einsum("bhkd,bhqk->bhqd", {x[2], softmax(scores, -1)});
     }},
    {"einsum of an ellipsis",
     [](const Tensors& x) {
       return einsum("...qk,...kd->...qd", {softmax(einsum("...qd,...kd->...qk", {x[0], x[1]}), -1), x[2]});
     }},
    {"einsum for the scores alone",
     [](const Tensors& x) {
       return matmul(softmax(einsum("bhqd,bhkd->bhqk", {x[0], x[1]}), -1), x[2]);
     }},
    {"a softmax of exponentials",
     [](const Tensors& x) {
       const Tensor scores = where(x[3], matmul(x[0], keys(x)) * 0.5, -1e9), e = exp(scores - amax(scores, -1, true));
       return matmul(e / sum(e, -1, true), x[2]);
     }},
    {"a softmax of exponentials, the greatest a constant",
     [](const Tensors& x) {
       const Tensor scores = matmul(x[0], keys(x)) + x[4], e = exp(scores - stop_gradient(amax(scores, {3}, true)));
       return einsum("bhqk,bhkd->bhqd", {e / sum(e, {3}, true), x[2]});
     }},
    {"a softmax of exponentials in f32, of 16 bits",
     [](const Tensors& x) {
       const auto half = [](const Tensor& x) { return cast(x, DType::f16); };
       const Tensor scores = cast(matmul(half(x[0]), half(keys(x))), DType::f32) * 0.5;
       const Tensor e = exp(scores - amax(scores, -1, true)), weights = cast(e / sum(e, -1, true), DType::f16);
       return cast(matmul(weights, half(x[2])), DType::f64);
     }},
    {"a softmax of exponentials in 16 bits",
     [](const Tensors& x) {
       const auto half = [](const Tensor& x) { return cast(x, DType::f16); };
       const Tensor scores = matmul(half(x[0]), half(keys(x))), e = exp(scores - amax(scores, -1, true));
       return cast(matmul(e / sum(e, -1, true), half(x[2])), DType::f64);
     }},
    {"where, a softmax of exponentials",
     [](const Tensors& x) {
       const Tensor scores = where(x[3], matmul(x[0], keys(x)), -infinity), e = exp(scores - amax(scores, -1, true));
       return matmul(e / sum(e, -1, true), x[2]);
     }},
    {"where, the exponential of log_softmax",
     [](const Tensors& x) {
       return matmul(exp(log_softmax(where(x[3], matmul(x[0], keys(x)), -infinity), -1)), x[2]);
     }},
    {"the exponential of log_softmax",
     [](const Tensors& x) { return matmul(exp(log_softmax(matmul(x[0], keys(x)) / 2 + x[4], -1)), x[2]); }},
    {"exponentials whose sum is read too",
     [](const Tensors& x) {
       const Tensor scores = matmul(x[0], keys(x)), e = exp(scores - amax(scores, -1, true)), total = sum(e, -1, true);
       return matmul(e / total, x[2]) + log(total);
     },
     false},
    {"exponentials less another greatest",
     [](const Tensors& x) {
       const Tensor scores = matmul(x[0], keys(x)), e = exp(scores - amax(scores, -2, true));
       return matmul(e / sum(e, -1, true), x[2]);
     },
     false},
    {"exponentials less that of other scores",
     [](const Tensors& x) {
       const Tensor scores = matmul(x[0], keys(x)), e = exp(scores - amax(scores * 2, -1, true));
       return matmul(e / sum(e, -1, true), x[2]);
     },
     false},
    {"exponentials by another sum",
     [](const Tensors& x) {
       const Tensor scores = matmul(x[0], keys(x)), e = exp(scores - amax(scores, -1, true));
       return matmul(e / sum(e + 1, -1, true), x[2]);
     },
     false},
    {"exponentials summed over queries",
     [](const Tensors& x) {
       const Tensor scores = matmul(x[0], keys(x)), e = exp(scores - amax(scores, -1, true));
       return matmul(e / sum(e, -2, true), x[2]);
     },
     false},
    {"exponentials without a greatest",
     [](const Tensors& x) {
       const Tensor e = exp(matmul(x[0], keys(x)));
       return matmul(e / sum(e, -1, true), x[2]);
     },
     false},
    {"exponentials less a logsumexp",
     [](const Tensors& x) {
       const Tensor scores = matmul(x[0], keys(x));
       return matmul(exp(scores - logsumexp(scores, -1, true)), x[2]);
     },
     false},
    {"einsum of keys without heads",
     [](const Tensors& x) {
       return matmul(softmax(einsum("bhqd,bkd->bhqk", {x[0], select(x[1], 1, 0)}), -1), x[2]);
     },
     false},
    {"a mask cast to the scores' 16 bits",
     [](const Tensors& x) {
       const auto half = [](const Tensor& x) { return cast(x, DType::f16); };
       const Tensor scores = matmul(half(x[0]), half(keys(x))) + half(x[4]);
       return cast(matmul(softmax(scores, -1), half(x[2])), DType::f64);
     }},
    {"a mask in f32, and weights cast to 16 bits",
     [](const Tensors& x) {
       const auto half = [](const Tensor& x) { return cast(x, DType::f16); };
       const Tensor scores = matmul(half(x[0]), half(keys(x))) + cast(x[4], DType::f32);
       return cast(matmul(half(softmax(scores, -1)), half(x[2])), DType::f64);
     }},
    {"a mask in f32 beside 16 bits",
     [](const Tensors& x) {
       const auto half = [](const Tensor& x) { return cast(x, DType::f16); };
       const Tensor scores = matmul(half(x[0]), half(keys(x))) + cast(x[4], DType::f32);
       return cast(matmul(softmax(scores, -1), half(x[2])), DType::f64);
     },
     false},
    {"divided after the product",
     [](const Tensors& x) {
       const Tensor scores = matmul(x[0], keys(x)), e = exp(scores - amax(scores, -1, true));
       return matmul(e, x[2]) / sum(e, -1, true);
     },
     false},
    {"weights that are read too",
     [](const Tensors& x) {
       const Tensor weights = softmax(matmul(x[0], keys(x)), -1);
       return matmul(weights, x[2]) + sum(weights);
     },
     false},
    {"another axis", [](const Tensors& x) { return matmul(softmax(matmul(x[0], keys(x)), -2), x[2]); }, false},
    {"a number that hides nothing",
     [](const Tensors& x) { return matmul(softmax(where(x[3], matmul(x[0], keys(x)), -1.0), -1), x[2]); }, false},
    {"a negative scale", [](const Tensors& x) { return matmul(softmax(matmul(x[0], keys(x)) * -0.5, -1), x[2]); },
     false},
    {"a soft cap", [](const Tensors& x) { return matmul(softmax(tanh(matmul(x[0], keys(x))), -1), x[2]); }, false},
    {"no product", [](const Tensors& x) { return matmul(softmax(x[4], -1), select(x[2], 0, 0)); }, false},
};

Tensors inputs_of() {
  const Tensor mask = remainder(reshape(arange(30), {5, 6}), 3) != 1;
  return {noise({2, 3, 5, 4}, 1), noise({2, 3, 6, 4}, 2), noise({2, 3, 6, 2}, 3), mask, noise({3, 5, 6}, 4)};
}
// Masks of [5, 5] that programs make: bools that are true where the query sees the key, or numbers that are added.
struct MaskForm {
  const char* name;
  Tensor (*make)(Dim length);
  bool is_causal = true;
};
Tensor row(Dim length) { return unsqueeze(arange(length), 1); }
Tensor column(Dim length) { return unsqueeze(arange(length), 0); }
const MaskForm mask_forms[] = {
    {"places compared", [](Dim n) { return row(n) >= column(n); }},
    {"places compared the other way", [](Dim n) { return column(n) <= row(n); }},
    {"not what is after", [](Dim n) { return ~(column(n) > row(n)); }},
    {"less than the next", [](Dim n) { return column(n) < row(n) + 1; }},
    {"a difference", [](Dim n) { return row(n) - column(n) >= 0; }},
    {"a difference of floats",
     [](Dim n) { return cast(column(n), DType::f32) - cast(row(n), DType::f32) < 0.5 + 0.5; }},
    {"tril of ones",
     [](Dim n) {
       return tril(ones({n, n})) == 1;
     }},
    {"tril, cast",
     [](Dim n) {
       return cast(tril(ones({n, n})), DType::boolean);
     }},
    {"tril of four axes",
     [](Dim n) {
       return reshape(tril(ones({n, n})), {1, 1, n, n}) != 0;
     }},
    {"triu, not",
     [](Dim n) {
       return ~cast(triu(ones({n, n}), 1), DType::boolean);
     }},
    {"triu of a number, added",
     [](Dim n) {
       return triu(full({n, n}, -infinity), 1);
     }},
    {"one minus tril, times a number, added",
     [](Dim n) {
       return (1 - tril(ones({n, n}))) * -1e9;
     }},
    {"where of a number, added", [](Dim n) { return where(row(n) >= column(n), 0.0, -1e9); }},
    {"with itself",
     [](Dim n) {
       return (row(n) >= column(n)) & cast(tril(ones({n, n})), DType::boolean);
     }},
    {"the diagonal hidden too", [](Dim n) { return (row(n) > column(n)) | (column(n) == 0); }, false},
    {"one key more", [](Dim n) { return row(n) + 1 >= column(n); }, false},
    {"keys from here on", [](Dim n) { return row(n) <= column(n); }, false},
    {"a band", [](Dim n) { return (row(n) >= column(n)) & (row(n) - column(n) < 3); }, false},
    {"tril with another diagonal",
     [](Dim n) {
       return tril(ones({n, n}), 1) == 1;
     },
     false},
    {"a bias for what is seen", [](Dim n) { return where(row(n) >= column(n), 1.0, -1e9); }, false},
    {"a number that hides nothing, added", [](Dim n) { return where(row(n) >= column(n), 0.0, -1.0); }, false},
    {"rows twice",
     [](Dim n) {
       return row(n) >= reshape(row(n), {n, 1});
     },
     false},
};
struct Masked {
  Tensor operator()(const Tensors& x, const int& form) const {
    const Tensor mask = mask_forms[form].make(x[0].size(2)), scores = matmul(x[0], keys(x)) * 0.5;
    return matmul(softmax(mask.dtype() == DType::boolean ? where(mask, scores, -1e9) : scores + mask, -1), x[2]);
  }
};
struct Named {
  Tensor operator()(const Tensors& x, const int& form) const { return forms[form].attend(x); }
};

}  // namespace

TEST_CASE("attention written by hand is found in its usual forms, and gives the same") {
  const Tensors x = inputs_of();
  for (int i = 0; i < static_cast<int>(std::size(forms)); ++i) {
    CAPTURE(std::string(forms[i].name));
    const Tensor expected = forms[i].attend(x);
    int found = -1;
    const Registered registered;
    register_pass(PassStage::traced, "count_attention", std::to_string(i), [&](const GraphView& graph) {
      found = 0;
      for (const Tensor& value : graph.nodes()) found += NodeView(value).name() == "scaled_dot_product_attention";
      return graph;
    });
    for (const bool dynamic : {false, true}) {
      CAPTURE(dynamic);
      CompileOptions options{.on_compile_error = OnFailure::raise};
      if (dynamic) options.dynamic = true;
      if (i % 8 != 0) options.backend = "aot_eager";  // after all passes, without kernels
      const std::string_view name = forms[i].name;
      const bool rounds =
          name == "weights cast" || name.ends_with("16 bits") || name == "scaled by a number that 16 bits do not hold";
      check_close(compile(Named(), options)(x, i), expected, rounds ? 2e-3 : 1e-11);
      CHECK(found == (forms[i].is_found ? 1 : 0));
    }
    unregister_pass("count_attention");
  }
}

TEST_CASE("a causal mask that a program makes of places is found as such, and no other one") {
  const Tensors x{noise({2, 3, 5, 4}, 1), noise({2, 3, 5, 4}, 2), noise({2, 3, 5, 2}, 3)};
  for (int i = 0; i < static_cast<int>(std::size(mask_forms)); ++i) {
    CAPTURE(std::string(mask_forms[i].name));
    const Tensor expected = Masked()(x, i);
    std::string found;
    const Registered registered;
    register_pass(PassStage::traced, "look_at_attention", std::to_string(i), [&](const GraphView& graph) {
      found = "none";
      for (const Tensor& value : graph.nodes())
        if (NodeView(value).name() == "scaled_dot_product_attention") found = NodeView(value).attributes();
      return graph;
    });
    for (const bool dynamic : {false, true}) {
      CAPTURE(dynamic);
      CompileOptions options{.on_compile_error = OnFailure::raise};
      if (dynamic) options.dynamic = true;
      options.backend = "aot_eager";
      check_close(compile(Masked(), options)(x, i), expected, 1e-11);
      CAPTURE(found);
      CHECK((found.find("is_causal true") != std::string::npos) == mask_forms[i].is_causal);
    }
    unregister_pass("look_at_attention");
  }
}

TEST_CASE("weights that are dropped are part of attention by hand, with the draw that drops them") {
  struct Dropped {
    const char* name;
    Tensor (*drop)(const Tensor& weights, Generator& generator);
    double probability;  // that is found; 0: nothing is
  };
  static constexpr Dropped all[] = {
      {"dropout", [](const Tensor& weights, Generator& generator) { return dropout(weights, 0.25, generator); }, 0.25},
      {"a layer, in f32",
       [](const Tensor& weights, Generator& generator) {
         return cast(nn::Dropout(0.1)(cast(weights, DType::f32), generator), DType::f64);
       },
       0.1},
      {"in 16 bits",
       [](const Tensor& weights, Generator& generator) {
         return cast(dropout(cast(weights, DType::bf16), 0.1, generator), DType::f64);
       },
       0.1},
      {"not scaled",
       [](const Tensor& weights, Generator& generator) { return dropout(weights, 0.25, generator) * 0.75; }, 0},
      {"twice",
       [](const Tensor& weights, Generator& generator) {
         return dropout(dropout(weights, 0.25, generator), 0.25, generator);
       },
       0},
      {"all heads alike",
       [](const Tensor& weights, Generator& generator) {
         const Tensor kept = uniform({2, 1, 5, 6}, 0, 1, generator) >= 0.25;
         return where(kept, weights / 0.75, 0);
       },
       0},
      {"by other numbers",
       [](const Tensor& weights, Generator& generator) {
         return where(normal({2, 3, 5, 6}, 0, 1, generator) >= 0.25, weights / 0.75, 0);
       },
       0},
  };
  const Tensors x = inputs_of();
  for (int i = 0; i < static_cast<int>(std::size(all)); ++i) {
    CAPTURE(std::string(all[i].name));
    const auto attend = [](const Tensors& x, const int& form) {
      Generator generator(7);
      return matmul(all[form].drop(softmax(matmul(x[0], keys(x)) * 0.5, -1), generator), x[2]);
    };
    const Tensor expected = attend(x, i);
    double probability = 0;
    register_pass(PassStage::traced, "body_of_attention", std::to_string(i), [&](const GraphView& graph) {
      return graph.rewrite([&](const NodeView& at) -> Tensor {
        const std::optional<AttentionByHand> found = find_attention(*at.results()[0].node());
        if (!found || found->dropout == 0) return {};
        probability = found->dropout;
        return attention_of(*found);
      });
    });
    const bool rounds = all[i].name == std::string_view("in 16 bits");
    check_close(compile(attend, {.backend = "aot_eager"})(x, i), expected, rounds ? 1e-2 : 1e-6);
    CHECK(probability == doctest::Approx(all[i].probability));
    unregister_pass("body_of_attention");
  }
}

TEST_CASE("attention by hand stays where its weights are read by a derivative, and is found in the body of a loop") {
  const Tensors x = inputs_of();
  const Registered registered;
  const auto slopes = [](const Tensors& x) {
    return grad([](const Tensors& at) { return sum(square(forms[0].attend(at))); }, Tensors{x[0], x[1], x[2]});
  };
  const Tensors expected = slopes(x), found = compile(slopes, {.on_compile_error = OnFailure::raise})(x);
  for (std::size_t i = 0; i < expected.size(); ++i) check_close(found[i], expected[i]);
  const auto looped = [](const Tensors& x) {
    const auto step = [](const Index&, const Tensor& at) {
      return matmul(softmax(matmul(at, transpose(at)) * 0.5, -1), at);
    };
    return fori(0, 3, step, matmul(x[0], transpose(x[0])));
  };
  int count = 0;
  register_pass(PassStage::traced, "count_attention", "loops", [&](const GraphView& graph) {
    for (const Tensor& value : graph.nodes())
      for (const GraphView& body : NodeView(value).bodies())
        for (const Tensor& each : body.nodes()) count += NodeView(each).name() == "scaled_dot_product_attention";
    return graph;
  });
  check_close(compile(looped, {.on_compile_error = OnFailure::raise})(x), looped(x));
  unregister_pass("count_attention");
  CHECK(count == 1);
}

TEST_CASE("a query that sees nothing gets zeros where attention by hand is found, or the mean that the program has") {
  Tensors x = inputs_of();
  x[3] = x[3] & (unsqueeze(arange(5), 1) != 2);
  const Registered registered;
  for (int i = 0; i < static_cast<int>(std::size(forms)); ++i)
    if (forms[i].name == std::string_view("where of a large number, scaled after"))
      check_close(compile(Named(), {.backend = "aot_eager"})(x, i), forms[i].attend(x), 1e-11);
  for (const Form& form : forms)
    if (form.name == std::string_view("where") || form.name == std::string_view("masked_fill") ||
        form.name == std::string_view("where, a softmax of exponentials") ||
        form.name == std::string_view("where, the exponential of log_softmax")) {
      CAPTURE(std::string(form.name));
      const Tensor plain = form.attend(x);
      CHECK(all(isnan(select(plain, 2, 2))).item<bool>());
      check_close(compile(Named(), {.backend = "aot_eager"})(x, static_cast<int>(&form - forms)),
                  where(isnan(plain), 0, plain));
    }
}
