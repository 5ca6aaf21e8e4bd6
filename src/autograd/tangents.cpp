#include "autograd/tangents.hpp"

#include "autograd/backward.hpp"
#include "autograd/call.hpp"
#include "autograd/loops.hpp"
#include "record/record.hpp"
#include "weft/detail/slopes.hpp"

namespace weft {

// Null where the program calls no linear algebra (record/linear_algebra.hpp).
[[gnu::weak]] void push_eigh(const Pushforward&);

namespace {

constexpr RecordingBuilder build;

// ---- pointwise: the table's own derivatives, which are linear in g --------------------------------------------------

struct NoTangent {};
constexpr NoTangent none;

void add(const Pushforward&, NoTangent) {}
void add(const Pushforward& p, const Tensor& part) {
  p.results[0] = p.results[0].defined() ? build.add(p.results[0], part) : part;
}

Tensor operand_or_none(const Pushforward& p, std::size_t i) {
  return i < p.node().operand_count ? p.operand(i) : Tensor();
}

#define WEFT_DERIVATIVE(i, expression) \
  if (const Tensor& g = p.tangents[i]; g.defined()) add(p, expression);
#define WEFT_DERIVATIVES_1(da) WEFT_DERIVATIVE(0, da)
#define WEFT_DERIVATIVES_2(da, db) WEFT_DERIVATIVE(0, da) WEFT_DERIVATIVE(1, db)
#define WEFT_DERIVATIVES_3(da, db, dc) WEFT_DERIVATIVE(0, da) WEFT_DERIVATIVE(1, db) WEFT_DERIVATIVE(2, dc)
#define WEFT_POINTWISE(name, arity, dtypes, rounding, cost, lanes, reference, ...)                        \
  void push_##name(const Pushforward& p) {                                                                \
    [[maybe_unused]] const Tensor& y = p.value;                                                           \
    [[maybe_unused]] const Tensor a = p.operand(0), b = operand_or_none(p, 1), c = operand_or_none(p, 2); \
    WEFT_DERIVATIVES_##arity(__VA_ARGS__)                                                                 \
  }
#include "weft/ops.def"
#undef WEFT_DERIVATIVES_1
#undef WEFT_DERIVATIVES_2
#undef WEFT_DERIVATIVES_3
#undef WEFT_DERIVATIVE

// ---- structural: in which operands they are linear ------------------------------------------------------------------

// Leaves, and values that no infinitesimal change of an operand changes.
void zero(const Pushforward&) {}

void apply_to(const Pushforward& p, std::span<const Tensor> operands) {
  const Tensor value = build.make(p.node().op, operands, p.node().attributes(), p.node().type);
  for (unsigned i = 0; i < p.results.size(); ++i) {
    const Tensor result(value.node(), i);
    if (is_floating(type_of(result).dtype)) p.results[i] = result;
  }
}

// Linear in these operands together: the same operation on their tangents.
template <std::uint32_t operands>
void linear(const Pushforward& p) {
  std::vector<Tensor> given(p.node().inputs().begin(), p.node().inputs().end());
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (!(operands >> i & 1) && p.tangents[i].defined()) return transpose_twice(p);
    if (!(operands >> i & 1)) continue;
    Type type = type_of(given[i]);
    type.weak = false;
    given[i] = p.tangents[i].defined() ? p.tangents[i] : constant_like(0, type, p.node().loc);
  }
  apply_to(p, given);
}
constexpr std::uint32_t first = 1, second = 2, both = 3;

// Linear in each operand while the others stay: a sum of operations, in each of which one tangent takes the place of
// its operand.
void multilinear(const Pushforward& p) {
  for (std::size_t i = 0; i < p.tangents.size(); ++i) {
    if (!p.tangents[i].defined()) continue;
    std::vector<Tensor> given(p.node().inputs().begin(), p.node().inputs().end());
    given[i] = p.tangents[i];
    add(p, build.make(p.node().op, given, p.node().attributes(), p.node().type));
  }
}

// As many operands as there are.
void push_concat(const Pushforward& p) {
  std::vector<Tensor> given(p.tangents.begin(), p.tangents.end());
  for (std::size_t i = 0; i < given.size(); ++i) {
    Type type = type_of(p.operand(i));
    type.weak = false;
    if (!given[i].defined()) given[i] = constant_like(0, type, p.node().loc);
  }
  apply_to(p, given);
}

void push_call(const Pushforward& p) { differentiate_call_forward(p); }

constexpr TangentRule push_constant = zero, push_input = zero, push_data = zero, push_iota = zero, push_argmax = zero,
                      push_argsort = zero, push_random_bits = zero, push_stop_gradient = zero, push_check = zero;
constexpr TangentRule push_cast = linear<first>, push_reshape = linear<first>, push_permute = linear<first>,
                      push_expand = linear<first>, push_slice = linear<first>, push_windows = linear<first>,
                      push_pad = linear<first>, push_sum = linear<first>, push_cumsum = linear<first>,
                      push_gather = linear<first>, push_scatter_add = linear<second>, push_update_slice = linear<both>,
                      push_update_rows = linear<both>, push_triangular_solve = linear<second>,
                      push_fourier = linear<both>, push_real_fourier = linear<first>,
                      push_inverse_real_fourier = linear<both>, push_transfer = linear<first>,
                      push_all_reduce_start = linear<first>, push_all_reduce_wait = linear<first>,
                      push_broadcast = linear<first>, push_reduce_to_root = linear<first>,
                      push_all_gather = linear<first>, push_reduce_scatter = linear<first>;
constexpr TangentRule push_matmul = multilinear, push_convolution = multilinear,
                      push_convolution_input_gradient = multilinear, push_convolution_weight_gradient = multilinear;
constexpr TangentRule push_bitcast = transpose_twice, push_prod = transpose_twice, push_amax = transpose_twice,
                      push_amin = transpose_twice, push_cumprod = transpose_twice, push_cummax = transpose_twice,
                      push_cummin = transpose_twice, push_logcumsumexp = transpose_twice,
                      push_scatter_amax = transpose_twice, push_cholesky = transpose_twice, push_lu = transpose_twice,
                      push_ldl = transpose_twice, push_qr = transpose_twice, push_svd = transpose_twice,
                      push_eig = transpose_twice, push_host_call = transpose_twice;
constexpr TangentRule push_scan = differentiate_scan_forward, push_while_loop = differentiate_while_forward,
                      push_cond = differentiate_cond_forward;

void push_variable(const Pushforward& p) { p.results[0] = p.tangents[0]; }

}  // namespace

void transpose_twice(const Pushforward& p) {
  const Node& node = p.node();
  std::vector<Tensor> cotangents(node.output_count), variables, gradients(node.operand_count), values, seeds;
  std::vector<unsigned char> wanted;
  for (unsigned i = 0; i < node.output_count; ++i) {
    Type type = type_of(Tensor(p.value.node(), i));
    if (!is_floating(type.dtype)) continue;
    type.weak = false;
    // Of one, since rules may choose by the sign of a gradient.
    cotangents[i] = record(Op::variable, {constant_like(1, type, node.loc)}, {}, {}, node.loc);
    variables.push_back(cotangents[i]);
  }
  if (variables.empty()) return;  // integers have no tangent
  for (const Tensor& tangent : p.tangents) wanted.push_back(tangent.defined());
  vector_jacobian_rule(node.op)({p.value, cotangents, wanted, gradients});
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (wanted[i] && gradients[i].defined()) values.push_back(gradients[i]), seeds.push_back(p.tangents[i]);
  if (values.empty()) return;
  const std::vector<Tensor> found = pull_back(values, seeds, variables, "jvp", node.loc);
  for (std::size_t i = 0, next = 0; i < cotangents.size(); ++i)
    if (cotangents[i].defined()) p.results[i] = found[next++];
}

TangentRule tangent_rule(Op op) {
  static constexpr TangentRule table[] = {
#define WEFT_POINTWISE(name, ...) push_##name,
#define WEFT_STRUCTURAL(name, ...) push_##name,
#include "weft/ops.def"
  };
  return table[static_cast<int>(op)];
}

}  // namespace weft
