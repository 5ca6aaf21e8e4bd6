// Several processes that run one program, each on its own device and its own part of the data. A launcher starts them:
// mpirun, torchrun, or a script that sets RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT. The functions here
// are operations like others: in a compiled function they are steps of its plan. With one process they are the value
// itself and cost nothing.
//   distributed::init();
//   auto step = compile([](Model& model, Optimizer& optimizer, const Tensor& x, const Tensor& y) {
//     auto [loss, gradients] = value_and_grad(loss_of, model, x, y);        // of this process's part of the batch
//     optimizer.update(model, distributed::average(gradients));             // the same in every process
//     return distributed::all_reduce(loss, distributed::Reduction::mean);
//   });
// Values of the host go by MPI under Open MPI's mpirun, else by sockets; those of CUDA devices by NCCL. Both are found
// when the program runs. Every process does the same collectives in one order, on values of the same shapes and dtypes,
// and those of a compiled function in a compiled function: an Error says where it does not. Where a process ends, the
// others get an Error at their next collective, or end with a sentence. A forked child is no member of the group.
// Collectives are called by one thread of a process at a time. weft/weft.hpp does not include this header.
#pragma once
#include <cstdint>
#include <optional>
#include <utility>

#include "weft/flatten.hpp"
#include "weft/tensor.hpp"
#include "weft/tree.hpp"

namespace weft::distributed {

// Joins the other processes, as the launcher's variables say: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and LOCAL_RANK
// (by default RANK), or those of Open MPI. Without such variables this process is alone. To be called before the first
// collective; called again it does nothing. Throws Error where a variable is missing or makes no sense, where a library
// that is needed is not found, where the program has initialized MPI for fewer threads than MPI_THREAD_SERIALIZED, and
// where the other processes are not there within two minutes.
void init();

int rank();        // of this process, from 0; 0 before init()
int size();        // how many processes there are; 1 before init()
int local_rank();  // among the processes of this machine: the index of the process's device, as
                   // Device::cuda(local_rank())

enum class Reduction : std::uint8_t { sum, mean };  // of the values of all processes

// The sum or the mean of what all processes give, element by element: x's shape and dtype, the same bits in every
// process. 16-bit floats are added in f32 on the host. A mean divides before it adds. What is differentiated is the sum
// of the losses of all processes; so the derivative is an all_reduce of the gradients. Throws Error on bool, and on a
// mean of integers.
Tensor all_reduce(At x, Reduction reduction = Reduction::sum);
// x of the process of rank `root`, in all: x's shape and dtype, any dtype. The gradient of the root's x is the sum of
// all gradients, that of the others is zero. Throws Error where there is no such rank.
Tensor broadcast(At x, int root = 0);
// What all processes give, one after the other along axis 0 in the order of ranks: [n, ...] becomes [size() * n, ...],
// of any dtype. Its derivative is a reduce_scatter. Throws Error on a tensor of no axes.
Tensor all_gather(At x);
// The part of this process, along axis 0, of the sum or mean over all: [n, ...] becomes [n / size(), ...]. Its
// derivative is an all_gather. Throws Error where n is no multiple of size(), and as all_reduce does.
Tensor reduce_scatter(At x, Reduction reduction = Reduction::sum);
// Returns when every process has come here. Throws Error in a compiled function.
void barrier(Loc loc = Loc::current());

// Of average().
struct Buckets {
  std::int64_t bytes = 25 << 20;  // of the tensors that are sent together, at most; a larger tensor goes by itself
};

// Of fully_shard().
struct Shards {
  std::int64_t bytes = 25 << 20;  // of the parameters that are gathered together, at most; a larger one goes by itself
  bool reshard_after_forward = true;  // the derivative gathers a parameter again, and it is not held until then
};

struct GatherOptions {              // of gathered()
  std::optional<DType> dtype = {};  // floating parameters are cast to it before they are sent; none: as they are
};

}  // namespace weft::distributed

namespace weft::detail {
void average(const LeafList& values, const distributed::Buckets& buckets, Loc loc);
void replicate(const LeafList& values, int root, Loc loc);

// The erased half of fully_shard(): is told of each parameter, and makes them parts.
class ParameterSharder {
 public:
  ParameterSharder(const distributed::Shards& shards, Loc loc);
  ~ParameterSharder();
  ParameterSharder(const ParameterSharder&) = delete;
  void add(const char* path, Param& parameter);
  void run();

 private:
  struct State;
  State* state_;
};
// A Param or Buffer that is a part, or that is whole and cast.
struct ShardedPlace {
  Tensor* tensor;
  std::uint32_t* shard;
  bool is_parameter;
};
void gather_places(const GrowingList<ShardedPlace>& places, const distributed::GatherOptions& options, Loc loc);
// This process's part of a tensor.
Tensor part_of(const Tensor& whole, std::uint32_t shard, const char* path, Loc loc);
template <class T>
inline constexpr bool may_be_sharded = std::is_same_v<T, Param> || std::is_same_v<T, Buffer>;
}  // namespace weft::detail

namespace weft::distributed {

// The mean over all processes of each floating tensor in `values`, a tensor or a struct of such: the gradients of a
// model. Tensors are sent together in buckets, in the order in which they were computed: on a device a bucket is on its
// way while the rest of the backward pass is computed. What is not floating, or undefined, stays as it is.
template <class T>
T average(T values, Buckets buckets = {}, Loc loc = Loc::current()) {
  static_assert(detail::Flattenable<T>,
                "weft: distributed::average(gradients) takes a tensor, or a struct or container of tensors");
  if constexpr (detail::Flattenable<T>) {
    detail::LeafList leaves;
    detail::flatten(values, leaves);
    detail::average(leaves, buckets, loc);
  }
  return values;
}

// Gives every process the tensors that `model` has in the process of rank `root`: parameters, buffers, Scalars, an
// optimizer's state. Before training, so that all begin with the same.
template <class T>
void replicate(T& model, int root = 0, Loc loc = Loc::current()) {
  static_assert(detail::Flattenable<T>,
                "weft: distributed::replicate(model) takes a tensor, or a struct or container of tensors");
  if constexpr (detail::Flattenable<T>) {
    detail::LeafList leaves;
    detail::flatten(model, leaves);
    detail::replicate(leaves, root, loc);
  }
}

// ---- parameters in parts -------------------------------------------------------------------------------------------

// From here on this process holds its part of each parameter of `model`, one of size() of about equal length, [n] in
// the order of the elements, the last ones filled up with zeros: so the moments of an optimizer made after this are
// parts, and its update is of parts. Called on each layer and then on the model it makes a group of each layer, as
// parameters that are parts already stay as they are; those of one call are gathered together in the order of their
// declaration. Alone it does nothing. To be called after replicate(), outside of compiled functions, by all processes.
//   distributed::fully_shard(model);
//   optim::AdamW optimizer(model);
//   ...
//   value_and_grad([&](const Model& m) { return loss_of(distributed::gathered(m), x, y); }, model)
// Throws Error where the models of the processes differ.
template <class M>
void fully_shard(M& model, Shards shards = {}, Loc loc = Loc::current()) {
  detail::ParameterSharder sharder(shards, loc);
  tree::for_each(
      model, [&](const char* path, Param& parameter) { sharder.add(path, parameter); }, loc);
  sharder.run();
}

// A model of the same type with whole tensors in the place of parts: of a model or a layer, gradients, an optimizer's
// state. In a compiled function a parameter is gathered before it is read first, and, after others were read, again
// before its derivative is computed. Its gradient is a part of the sum over all processes, which average() makes a mean
// as it does that of any other. Outside of compiled functions all are gathered at once: to save a model, say. Where
// a dtype is given, the gradients are sent in it too, and are of the parameters' own dtype in the end. All processes
// call it; without parts and a dtype the model is given back as it is.
template <class M>
M gathered(const M& model, const GatherOptions& options = {}, Loc loc = Loc::current()) {
  M result = tree::clone(model);
  detail::GrowingList<detail::ShardedPlace> places;
  tree::for_each(
      result,
      [&]<class T>(T& leaf) {
        if constexpr (detail::may_be_sharded<T>)
          if (leaf.shard || options.dtype) places.push({&leaf.tensor(), &leaf.shard, std::is_same_v<T, Param>});
      },
      loc);
  detail::gather_places(places, options, loc);
  return result;
}

// Gives `state` the values of `whole`, an equal model or optimizer that holds whole tensors, as one that was loaded
// does: where `state` holds a part, this process's part. Nothing is sent. Throws Error where the sizes differ, and in a
// compiled function.
template <class T>
void take_parts(T& state, const T& whole, Loc loc = Loc::current()) {
  tree::for_each(
      state, whole,
      [&]<class L>(const char* path, L& to, const L& from) {
        if constexpr (detail::may_be_sharded<L>)
          to.tensor() = to.shard ? detail::part_of(from.tensor(), to.shard, path, loc) : from.tensor();
        else
          to = from;
      },
      loc);
}

}  // namespace weft::distributed
