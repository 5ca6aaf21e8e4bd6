#include "loop/product_nest.hpp"

#include <algorithm>

#include "base/fail.hpp"

namespace weft::loop {

namespace {

using Do = Statement::Kind;

class ProductNest : Nester {
 public:
  ProductNest(const Kernel& kernel, const ProductTile& tile, bool on_device)
      : Nester(kernel), tile_(tile), on_device_(on_device), product_(product_in(kernel)) {
    nest_.analysis = analyze(kernel, {.buffers = 0});
    nest_.states.resize(kernel.body.size());
    row_ = product_rows(kernel, nest_.analysis);
    while (!kernel.axes[static_cast<std::size_t>(inner_)].inner) ++inner_;
    if (!on_device) return;
    nest_.team.threads = 256;
    nest_.team.tile = static_cast<int>(tile.rows);
    nest_.team.across = row_;
  }

  Nest run() {
    if (kernel_.predicate >= 0) add(Do::ask);
    for (int i = 0; i < size(); ++i)
      if (facts(i).axes == 0) compute(i);
    hold(product_, State::tile);
    const Instruction& product = at(product_);
    const Panel left{product.args[0], {row_, tile_.rows}}, right{product.args[1], {kernel_.vector_axis, tile_.columns}};
    for (const Panel& panel : {left, right}) local(panel);
    loop(on_device_ ? Role::grid : Role::pool, tiles(), [&] {
      add(Do::start, product_);
      loop(Role::serial, {{inner_, tile_.depth}}, [&] {
        for (const Panel& panel : {right, left}) stage(panel);
        barrier();
        add(Do::multiply, product_);
        barrier();
      });
      results();
    });
    return std::move(nest_);
  }

 private:
  struct Panel {
    int value;
    LoopAxis across;  // the axis beside the inner one, and its part in a tile
  };
  void local(const Panel& panel) {
    WEFT_CHECK(!nest_.local(panel.value), kernel_.name, ": a product of a value with itself");
    nest_.locals.push_back({panel.value, Scope::shared, {{inner_, tile_.depth}, panel.across}, false});
  }
  void barrier() {
    if (on_device_) add(Do::barrier);
  }

  std::vector<LoopAxis> tiles() const {
    std::vector<LoopAxis> axes;
    for (const int axis : nest_.analysis.outer)
      if (axis != row_) axes.push_back({axis, 1});
    const LoopAxis rows{row_, tile_.rows}, columns{kernel_.vector_axis, tile_.columns};
    if (on_device_)
      axes.insert(axes.end(), {rows, columns});
    else
      axes.insert(axes.end(), {columns, rows});
    const Dim width = extent(kernel_.vector_axis);
    if (!on_device_ && width.is_constant() && width.constant() <= tile_.columns) axes.erase(axes.end() - 2);
    return axes;
  }

  // These instructions and all that they depend on, operands first.
  std::vector<int> below(const std::vector<int>& values) const {
    std::vector<bool> needed(kernel_.body.size(), false);
    for (const int value : values) needed[static_cast<std::size_t>(value)] = true;
    std::vector<int> found;
    for (int i = size() - 1; i >= 0; --i) {
      if (!needed[static_cast<std::size_t>(i)] || facts(i).axes == 0) continue;
      found.push_back(i);
      if (i != product_) mark_read(at(i), needed);
    }
    std::reverse(found.begin(), found.end());
    return found;
  }

  void stage(const Panel& panel) {
    const std::vector<int> values = below({panel.value});
    const auto some = [&](bool lanes) {
      for (const int i : values)
        if (facts(i).vector == lanes) compute(i);
    };
    if (on_device_) {
      const bool turned = panel.across.axis == row_ && !runs_along(values, row_);
      const LoopAxis depth{inner_, tile_.depth};
      return loop(Role::team, turned ? std::vector{panel.across, depth} : std::vector{depth, panel.across}, [&] {
        for (const int i : values) compute(i);
        add(Do::keep, panel.value);
      });
    }
    if (panel.across.axis == kernel_.vector_axis)
      return loop(Role::serial, {{inner_}}, [&] {
        some(false);
        loop(Role::lanes, {{kernel_.vector_axis}}, [&] {
          some(true);
          add(Do::keep, panel.value);
        });
      });
    loop(Role::serial, {{row_}}, [&] {
      loop(Role::serial, {{inner_}}, [&] {
        some(false);
        add(Do::keep, panel.value);
      });
    });
  }
  // Whether these loads read neighbouring elements along an axis.
  bool runs_along(const std::vector<int>& values, int axis) const {
    return std::any_of(values.begin(), values.end(), [&](int i) {
      const dims::Linear along = dims::linear_in(at(i).index, dims::axis(axis, extent(axis)));
      return at(i).kind == Kind::load && along.linear && along.coefficient.same(Dim(1));
    });
  }

  void results() {
    std::vector<int> stores;
    for (int i = 0; i < size(); ++i)
      if (at(i).kind == Kind::store && facts(i).axes != 0) stores.push_back(i);
    const std::vector<int> values = below(stores);
    const auto some = [&](bool lanes) {
      for (const bool last : {false, true})
        for (const int i : values)
          if (facts(i).vector == lanes && (at(i).kind == Kind::store) == last) compute(i);
    };
    const int vector = kernel_.vector_axis;
    if (on_device_)
      return loop(Role::team, {{row_, tile_.rows}, {vector, tile_.columns}}, [&] {
        some(false);
        some(true);
      });
    loop(Role::serial, {{row_}}, [&] {
      some(false);
      loop(Role::lanes, {{vector}}, [&] { some(true); });
    });
  }

  const ProductTile tile_;
  const bool on_device_;
  const int product_;
  int row_ = -1, inner_ = 0;
};

}  // namespace

int product_in(const Kernel& kernel) {
  for (std::size_t i = 0; i < kernel.body.size(); ++i)
    if (kernel.body[i].is(ReductionKind::product)) return static_cast<int>(i);
  return -1;
}

int product_rows(const Kernel& kernel, const Analysis& analysis) {
  const Instruction& product = kernel.body[static_cast<std::size_t>(product_in(kernel))];
  const auto axes_of = [&](int side) { return analysis.facts[static_cast<std::size_t>(product.args[side])].axes; };
  int row = -1;
  for (const int axis : analysis.outer)
    if ((axes_of(0) >> axis & 1) && !(axes_of(1) >> axis & 1)) row = axis;
  WEFT_CHECK(row >= 0 && !(axes_of(0) >> kernel.vector_axis & 1), kernel.name, ": a product without rows");
  return row;
}

Nest product_nest(const Kernel& kernel, const ProductTile& tile, bool on_device) {
  return ProductNest(kernel, tile, on_device).run();
}

}  // namespace weft::loop
