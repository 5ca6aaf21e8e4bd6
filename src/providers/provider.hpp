// One who can do operations: a library, or a kernel of our own. To add one: a row in providers.def and a file that
// defines the function which the row names.
#pragma once
#include "runtime/steps.hpp"
#include "schedule/provider.hpp"
#include "schedule/schedule.hpp"

namespace weft::providers {

class Provider {
 public:
  // Whether it takes the operation there, as far as that is known before operands have memory.
  virtual bool takes(const Node& node, Device device) const = 0;
  // Providers::attends.
  virtual bool attends(Device /*device*/) const { return false; }
  // Providers::add_questions.
  virtual void add_questions(const Node& /*node*/, Device /*device*/, Providers::Questions& /*to*/) const {}
  // Whether it is fast on an operand of these strides; others are put in order first.
  virtual bool reads(const Shape& /*shape*/, std::span<const Dim> /*strides*/) const { return false; }
  // An operand begins at a multiple of so many elements; another one is put in order as well.
  virtual int alignment() const { return 1; }
  // Whether it offers a product of matrices that are chosen (PlacedValue::chosen).
  virtual bool reads_chosen() const { return false; }
  // Whether its results may lie in another order of axes, of which the last stays last, and in parts of larger memory
  // that `reads` and `alignment` allow for an operand.
  virtual bool writes_in_any_order() const { return false; }
  // Providers::gains_with_channels_last.
  virtual bool gains_with_channels_last(const Node& /*node*/, Device /*device*/) const { return false; }
  // It is several times as fast where sizes along which memory is read or written are multiples of this.
  virtual std::int64_t size_multiple(const Node& /*node*/) const { return 1; }
  // Whether it may do a step of a package for a device. False: its steps have no form on disk, and another provider or
  // the body of the call takes its place.
  virtual bool is_for_packages() const { return true; }
  // Providers::joined and Providers::followed, of steps that it has offered.
  virtual std::shared_ptr<Payload> joined(const Step& /*first*/, const Step& /*second*/) const { return nullptr; }
  virtual std::optional<Followed> followed(const Step& /*product*/, const Step& /*follower*/, bool /*keeps*/,
                                           Device /*device*/) const {
    return {};
  }
  // Nothing where what it needs is not there.
  virtual std::optional<Offer> offer(const Candidate& candidate) const = 0;

 protected:
  ~Provider() = default;  // they are constants
};

#define WEFT_PROVIDER(name) const Provider& name();
#include "providers/providers.def"
#undef WEFT_PROVIDER

// Row-major, whatever the element at which it begins.
bool is_row_major(const Shape& shape, std::span<const Dim> strides);

// All of them.
const Providers& all();

// A step of a plan on disk, which is not of the providers' own any more.
using runtime::read_step;

// A generated kernel as a step (providers/generated.cpp).
std::shared_ptr<Payload> generated_kernels(std::vector<loop::Kernel> kernels);

}  // namespace weft::providers
