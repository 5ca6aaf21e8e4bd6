#include "runtime/host/direct_convolution.hpp"

#include <algorithm>
#include <cstring>

#include "base/fail.hpp"
#include "runtime/host/isa.hpp"
#include "runtime/parallel.hpp"

namespace weft::runtime {

namespace {

using Int = std::int64_t;

constexpr Int tiles_wanted = 8, most_positions = 256, most_outputs = 256, slice_depth = 128, largest_plane = 4096;

Int count_of(Int size, Int part) { return (size + part - 1) / part; }
Int aligned(Int bytes) { return (bytes + 63) / 64 * 64; }
Int floats(Int count) { return aligned(count * static_cast<Int>(sizeof(float))); }

const ConvolutionKernels& kernels() {
  static const ConvolutionKernels* const table[] = {&baseline::convolution_kernels, &avx2::convolution_kernels,
                                                    &avx512::convolution_kernels};
  return *table[static_cast<int>(host_isa())];
}

// The sum is walked in equal slices.
Int slices_of(Int depth) { return count_of(depth, slice_depth); }
Int slice_begin(Int depth, Int slice) { return slice * depth / slices_of(depth); }

}  // namespace

bool DirectConvolution::takes(const ConvolutionSizes& s) {
  if (s.result != Convolved::output || s.dtype != DType::f32 || s.is_wide || s.has_bias || s.groups != 1 || s.axes > 2)
    return false;
  // Whatever a tile reads can be counted in 31 bits.
  double reach = static_cast<double>(s.inputs), depth = reach;
  for (std::size_t axis = 0; axis < static_cast<std::size_t>(s.axes); ++axis) {
    depth *= static_cast<double>(s.kernel[axis]);
    reach *= static_cast<double>(most_positions) * static_cast<double>(s.strides[axis]) +
             static_cast<double>(s.kernel[axis]) * static_cast<double>(s.dilation[axis]);
  }
  return depth > 0 && s.outputs > 0 && std::max({reach, depth, static_cast<double>(s.inputs * largest_plane)}) < 0x1p31;
}

bool DirectConvolution::lies_well(const ConvolutionSizes& s) {
  const auto last = static_cast<std::size_t>(s.axes) + 1;
  for (const Convolved value : {Convolved::input, Convolved::output})
    if (s.shape_of(value)[last] > 1 && s.strides_of(value)[last] != 1) return false;
  Int step = 1;
  for (std::size_t axis = last; axis > 0; --axis) {
    const Int size = s.shape_of(Convolved::weight)[axis];
    if (size > 1 && s.weight_strides[axis] != step) return false;
    step *= size;
  }
  return true;
}

DirectConvolution::DirectConvolution(const ConvolutionSizes& s) : batch(s.batch), inputs(s.inputs), outputs(s.outputs) {
  const auto axis = [&](std::size_t i) {
    return Axis{s.size[i], s.kernel[i], s.positions[i], s.strides[i], s.low[i], s.dilation[i]};
  };
  const bool flat = s.axes == 1;
  y = flat ? Axis{1, 1, 1, 1, 0, 1} : axis(0);
  x = axis(flat ? 0 : 1);
  depth = inputs * y.kernel * x.kernel;
  input_item = s.input_strides[0], input_channel = s.input_strides[1], input_row = flat ? 0 : s.input_strides[2];
  weight_output = s.weight_strides[0], output_item = s.output_strides[0], output_channel = s.output_strides[1];
  output_row = flat ? 0 : s.output_strides[2];
  cut();
}

Int DirectConvolution::panel_begin(Int panel) const {
  return panel * count_of(outputs, kernels().lanes) / panels * kernels().lanes;
}

void DirectConvolution::cut() {
  panels = count_of(count_of(outputs, kernels().lanes), kernels().vectors);
  panel_tiles = count_of(outputs, most_outputs);
  tile_panels = count_of(panels, panel_tiles);
  if (x.positions == 0 || y.positions == 0) batch = 0, x.positions = y.positions = 1;
  column_tiles = count_of(x.positions, most_positions);
  tile_columns = count_of(x.positions, column_tiles);
  tile_rows = std::clamp<Int>(most_positions / tile_columns, 1, y.positions);
  for (;;) {  // until there are enough tiles
    panel_tiles = count_of(panels, tile_panels), row_tiles = count_of(y.positions, tile_rows);
    column_tiles = count_of(x.positions, tile_columns);
    if (batch == 0 || batch * panel_tiles * row_tiles * column_tiles >= tiles_wanted) break;
    if (tile_panels > 1)
      tile_panels = count_of(tile_panels, 2);
    else if (tile_rows > 1)
      tile_rows = count_of(tile_rows, 2);
    else if (tile_columns > 64)
      tile_columns = count_of(tile_columns, 2);
    else
      break;
  }
  tile_rows = count_of(y.positions, row_tiles);
  // Planes without borders are read where they lie, unless rows that are far apart would meet in the first cache.
  const auto inside = [](const Axis& axis) { return axis.low == 0 && axis.reach(axis.positions) <= axis.size; };
  const auto is_small = [](Int stride) { return stride >= 0 && stride <= largest_plane; };
  in_place = inside(y) && inside(x) && is_small(input_channel) && is_small(input_row) && is_small(y.size * input_row);
  slice_inputs = in_place ? 0 : std::min(inputs, slice_depth / (y.kernel * x.kernel) + 2);
}

std::size_t DirectConvolution::packed_bytes() const {
  return static_cast<std::size_t>(floats(panel_begin(panels) * depth));
}

struct DirectConvolution::Run {
  const DirectConvolution& it;
  const float* input;
  const float* weights;  // as they lie
  const float* packed;
  float* output;
  std::byte* threads;
  const ConvolutionKernels& kernels;

  Int tiles() const { return it.batch * it.panel_tiles * it.row_tiles * it.column_tiles; }
  Int pitch() const { return it.in_place ? it.input_row : it.x.reach(it.tile_columns); }
  Int plane() const { return it.in_place ? it.input_channel : it.y.reach(it.tile_rows) * pitch(); }
  Int positions() const { return it.tile_rows * it.tile_columns; }
  // A thread's memory.
  Int taps_bytes() const { return floats(it.depth); }
  Int sums_bytes() const { return floats(positions() * it.tile_panels * kernels.vectors * kernels.lanes); }
  Int places_bytes() const { return floats(positions() + kernels.positions); }
  Int image_bytes() const { return floats(it.slice_inputs * plane()); }  // inputs of a slice with their borders
  Int thread_bytes() const { return taps_bytes() + sums_bytes() + places_bytes() + image_bytes(); }

  // The offset of each element of the sum from the first, in elements of the image: of all inputs, also where those of
  // one slice at a time are copied.
  void set_taps(std::int32_t* to) const {
    for (Int c = 0; c < it.inputs; ++c)
      for (Int i = 0; i < it.y.kernel; ++i)
        for (Int j = 0; j < it.x.kernel; ++j)
          *to++ = static_cast<std::int32_t>(c * plane() + i * it.y.dilation * pitch() + j * it.x.dilation);
  }

  struct Part {
    Int begin, size;
  };
  struct Tile {
    Int item;
    Part panels, rows, columns;
    Int count() const { return rows.size * columns.size; }
  };
  Tile tile_of(Int index) const {
    const auto part = [&](Int tiles, Int step, Int size) {
      const Int begin = index % tiles * step;
      index /= tiles;
      return Part{begin, std::min(step, size - begin)};
    };
    const Part panels = part(it.panel_tiles, it.tile_panels, it.panels),
               columns = part(it.column_tiles, it.tile_columns, it.x.positions),
               rows = part(it.row_tiles, it.tile_rows, it.y.positions);
    return {index, panels, rows, columns};
  }

  // What a tile reads along an axis of the image, and how much of the border is before it.
  struct Read {
    Int begin, size, border;
  };
  static Read read_of(const Axis& axis, Part positions) {
    const Int first = positions.begin * axis.stride - axis.low, reach = axis.reach(positions.size);
    const Int border = std::clamp<Int>(-first, 0, reach);
    return {first + border, std::clamp<Int>(axis.size - first, border, reach) - border, border};
  }

  void run_tile(const Tile& tile, const std::int32_t* taps, std::byte* memory) const {
    auto* const sums = reinterpret_cast<float*>(memory);
    auto* const places = reinterpret_cast<std::int32_t*>(memory += sums_bytes());
    auto* const image = reinterpret_cast<float*>(memory += places_bytes());
    std::int32_t* place = places;
    for (Int i = 0; i < tile.rows.size; ++i)
      for (Int j = 0; j < tile.columns.size; ++j)
        *place++ = static_cast<std::int32_t>(i * it.y.stride * pitch() + j * it.x.stride);
    std::fill_n(place, kernels.positions, place[-1]);
    const Read rows = read_of(it.y, tile.rows), columns = read_of(it.x, tile.columns);
    const float* const from = input + tile.item * it.input_item + rows.begin * it.input_row + columns.begin;
    if (!it.in_place) std::memset(image, 0, static_cast<std::size_t>(image_bytes()));
    const Int first_panel = tile.panels.begin, end_panel = first_panel + tile.panels.size,
              first_output = it.panel_begin(first_panel);
    for (Int slice = 0; slice < slices_of(it.depth); ++slice) {
      const Int begin = slice_begin(it.depth, slice), end = slice_begin(it.depth, slice + 1),
                area = it.y.kernel * it.x.kernel;
      const Int first = begin / area, count = (end - 1) / area + 1 - first;
      if (!it.in_place)
        for (Int c = 0; c < count; ++c)
          kernels.copy_rows(from + (first + c) * it.input_channel, it.input_row, rows.size, columns.size,
                            image + c * plane() + rows.border * pitch() + columns.border, pitch());
      for (Int panel = first_panel; panel < end_panel; ++panel) {
        const Int output = it.panel_begin(panel), width = it.panel_width(panel);
        kernels.multiply({end - begin, width / kernels.lanes, packed + output * it.depth + begin * width,
                          it.in_place ? from : image, it.in_place ? 0 : first * plane(), taps + begin, places,
                          tile.count(), sums + (output - first_output) * positions(), slice > 0});
      }
    }
    for (Int panel = first_panel; panel < end_panel; ++panel) {
      const Int first = it.panel_begin(panel), width = it.panel_width(panel),
                present = std::min(width, it.outputs - first);
      const float* const of = sums + (first - first_output) * positions();
      float* const to = output + tile.item * it.output_item + first * it.output_channel +
                        tile.rows.begin * it.output_row + tile.columns.begin;
      const bool whole = tile.columns.size == it.output_row;
      const Int runs = whole ? 1 : tile.rows.size, length = tile.count() / runs;
      for (Int i = 0; i < runs; ++i)
        kernels.write(of + i * length * width, width, present, length, to + i * it.output_row, it.output_channel);
    }
  }

  void pack_panel(Int panel, float* to) const {
    const Int begin = it.panel_begin(panel), width = it.panel_width(panel),
              present = std::min(width, it.outputs - begin);
    to += begin * it.depth;
    if (present < width) std::fill_n(to, width * it.depth, 0.0F);
    kernels.write(weights + begin * it.weight_output, it.weight_output, it.depth, present, to, width);
  }
};

std::size_t DirectConvolution::workspace() const {
  const Run run{*this, nullptr, nullptr, nullptr, nullptr, nullptr, kernels()};
  return packed_bytes() + static_cast<std::size_t>(std::min<Int>(run.tiles(), num_threads()) * run.thread_bytes());
}

void DirectConvolution::pack(const float* weights, std::byte* to) const {
  const Run run{*this, nullptr, weights, nullptr, nullptr, nullptr, kernels()};
  for (Int panel = 0; panel < panels; ++panel) run.pack_panel(panel, reinterpret_cast<float*>(to));
}

void DirectConvolution::run(const float* input, const float* weights, float* output, std::span<std::byte> workspace,
                            const std::byte* packed) const {
  Run run{*this, input, weights, reinterpret_cast<const float*>(packed), output, workspace.data(), kernels()};
  const Int tiles = run.tiles();
  if (tiles == 0) return;
  if (!packed) {
    run.packed = reinterpret_cast<const float*>(workspace.data());
    run.threads += packed_bytes();
    parallel_for(
        0, panels, 1,
        [](void* context, Int begin, Int end) {
          const Run& run = *static_cast<const Run*>(context);
          for (Int panel = begin; panel < end; ++panel) run.pack_panel(panel, const_cast<float*>(run.packed));
        },
        &run);
  }
  const Int most_threads = (workspace.data() + workspace.size() - run.threads) / run.thread_bytes();
  WEFT_CHECK(most_threads > 0, "a workspace of ", workspace.size(), " bytes");
  parallel_for(
      0, tiles, 1, most_threads,
      [](void* context, Chunks& chunks) {
        const Run& run = *static_cast<const Run*>(context);
        std::byte* const memory = run.threads + chunks.place() * run.thread_bytes();
        auto* const taps = reinterpret_cast<std::int32_t*>(memory);
        run.set_taps(taps);
        for_each_index(chunks, [&](Int tile) { run.run_tile(run.tile_of(tile), taps, memory + run.taps_bytes()); });
      },
      &run);
}

}  // namespace weft::runtime
