// Short-time Fourier transforms: frames of a signal, transformed; and back, added up. Frames are put together of blocks
// of a hop, so that overlapping ones are a few slices.
#include "base/fail.hpp"
#include "record/composite.hpp"
#include "record/indexing.hpp"
#include "weft/signal.hpp"

namespace weft {

namespace {

struct Frames {
  std::int64_t size, hop, blocks;  // points of a frame, from one to the next, and blocks of a hop that cover a frame
};

template <class Options>
Frames frames_of(const char* name, std::int64_t n_fft, const Options& options, Loc loc) {
  const std::int64_t hop = options.hop_length == 0 ? n_fft / 4 : options.hop_length;
  if (n_fft < 1 || n_fft > std::int64_t{1} << 28 || hop < 1)
    fail(name, loc, "n_fft and hop_length must be positive, and n_fft at most 2^28: they are ", n_fft, " and ", hop);
  return {n_fft, hop, (n_fft - 1) / hop + 1};
}

// [n_fft] in a dtype; undefined where all are 1.
template <class Options>
Tensor window_of(const char* name, std::int64_t n_fft, const Options& options, const Type& of, Loc loc) {
  const std::int64_t length = options.win_length == 0 ? n_fft : options.win_length;
  if (length < 1 || length > n_fft)
    fail(name, loc, "win_length must be positive and at most n_fft, ", n_fft, ": it is ", length);
  Tensor window;
  if (options.window.defined()) {
    window = resolve(At(options.window, loc), name);
    const Type& type = type_of(window);
    if (type.shape.rank() != 1 || !(type.shape[0] == Dim(length)) || !is_floating(type.dtype))
      fail(name, loc, "needs a floating window of ", length, " points, it is ", to_string(type));
    window = cast(window, of.dtype);
  } else if (length == n_fft) {
    return window;
  } else {
    window = expand(full({}, 1, {of.dtype, of.device}), Shape::of(length));
  }
  const std::int64_t before = (n_fft - length) / 2;
  return length == n_fft ? window : pad(window, 0, before, n_fft - length - before);
}

// [B, L] to [B, frames, size].
Tensor in_frames(const Tensor& x, const Frames& how) {
  const Shape shape = type_of(x).shape;
  const Dim count = (shape[1] - Dim(how.size)) / Dim(how.hop) + Dim(1), blocks = count + Dim(how.blocks - 1);
  const Tensor longer = pad(x, 1, 0, how.blocks * how.hop - how.size);
  const Tensor rows = reshape_to(slice(longer, 1, 0, blocks * Dim(how.hop)), Shape::of(shape[0], blocks, how.hop), {});
  std::vector<Tensor> parts;
  for (std::int64_t i = 0; i < how.blocks; ++i) parts.push_back(slice(rows, 1, i, Dim(i) + count));
  return slice(concat(parts, -1), -1, 0, how.size);
}

// The other way round: [B, frames, size] to [B, (frames - 1) hop + size], the sum of what overlaps.
Tensor added_up(const Tensor& frames, const Frames& how) {
  const Shape shape = type_of(frames).shape;
  const Dim count = shape[1], blocks = count + Dim(how.blocks - 1);
  const Tensor longer = pad(frames, -1, 0, how.blocks * how.hop - how.size);
  Tensor total;
  for (std::int64_t i = 0; i < how.blocks; ++i) {
    const Tensor part = pad(slice(longer, -1, i * how.hop, (i + 1) * how.hop), 1, i, how.blocks - 1 - i);
    total = i == 0 ? part : total + part;
  }
  const Tensor row = reshape_to(total, Shape::of(shape[0], blocks * Dim(how.hop)), {});
  return slice(row, 1, 0, (count - Dim(1)) * Dim(how.hop) + Dim(how.size));
}

fft::Norm norm_of(bool normalized) { return normalized ? fft::Norm::ortho : fft::Norm::backward; }

}  // namespace

fft::Complex stft(At given, std::int64_t n_fft, const StftOptions& options) {
  constexpr const char* name = "stft";
  LooseComposite call(name, given.loc);
  Tensor x = resolve(given, name);
  const Type type = type_of(x);
  const int rank = type.shape.rank();
  if ((rank != 1 && rank != 2) || (type.dtype != DType::f32 && type.dtype != DType::f64))
    fail(name, call.loc(), "takes a signal [L] or [B, L] of f32 or f64: ", to_string(type));
  const Frames how = frames_of(name, n_fft, options, call.loc());
  const Tensor window = window_of(name, n_fft, options, type, call.loc());
  if (rank == 1) x = unsqueeze(x, 0);
  if (options.center) x = pad(x, {n_fft / 2, n_fft / 2}, options.pad_mode);
  if (type_of(x).shape[1] < Dim(n_fft))
    fail(name, call.loc(), "the signal is shorter than a frame of ", n_fft, " points: ", to_string(type));
  Tensor frames = in_frames(x, how);
  if (window.defined()) frames = frames * window;
  const fft::Options transform{.norm = norm_of(options.normalized)};
  const fft::Complex y = options.onesided ? fft::rfft(frames, transform) : fft::fft(frames, transform);
  const auto place = [&](const Tensor& part) {
    const Tensor turned = transpose(part);
    return rank == 1 ? squeeze(turned, 0) : turned;
  };
  return {place(y.real), place(y.imag)};
}

Tensor istft(const fft::Complex& given, std::int64_t n_fft, const IstftOptions& options, Loc loc) {
  constexpr const char* name = "istft";
  LooseComposite call(name, loc);
  Tensor real = resolve(At(given.real, loc), name), imag = resolve(At(given.imag, loc), name);
  const Type type = type_of(real);
  const int rank = type.shape.rank();
  const Frames how = frames_of(name, n_fft, options, call.loc());
  const std::int64_t frequencies = options.onesided ? n_fft / 2 + 1 : n_fft;
  if ((rank != 2 && rank != 3) || (type.dtype != DType::f32 && type.dtype != DType::f64) ||
      !(type.shape[rank - 2] == Dim(frequencies)))
    fail(name, call.loc(), "takes a spectrum [frequencies, frames] or [B, frequencies, frames] of f32 or f64, of ",
         frequencies, " frequencies: ", to_string(type));
  if (type.shape[rank - 1] < Dim(1)) fail(name, call.loc(), "there are no frames: ", to_string(type));
  Tensor window = window_of(name, n_fft, options, type, call.loc());
  if (rank == 2) real = unsqueeze(real, 0), imag = unsqueeze(imag, 0);
  const fft::Complex rows{transpose(real),
                          transpose(imag)};  // of more than half of the frequencies the others are not read
  Tensor frames = fft::irfft(rows, {.n = n_fft, .norm = norm_of(options.normalized)});
  if (window.defined())
    frames = frames * window;
  else
    window = expand(full({}, 1, {type.dtype, type.device}), Shape::of(n_fft));
  const Dim count = type.shape[rank - 1], whole = (count - Dim(1)) * Dim(how.hop) + Dim(n_fft);
  const Dim start = options.center ? n_fft / 2 : 0;
  check_extent(name, "the length", options.length, call.loc());
  if (options.length < Dim(0)) fail(name, call.loc(), "the length is negative: ", dims::to_string(options.length));
  const Dim wanted = options.length.same(Dim(0)) ? whole - start * Dim(2) : options.length;
  const bool is_longer = whole < start + wanted;
  const Dim end = is_longer ? whole : start + wanted;
  if (!(start < end)) fail(name, call.loc(), "nothing is left of ", dims::to_string(whole), " points");
  const auto cut = [&](const Tensor& row) { return slice(row, 1, start, end); };
  const Tensor squares = expand(square(window), Shape::of(1, count, n_fft));
  const Tensor weight = cut(added_up(squares, how));
  if (!weight.element_count().same(Dim(0)))
    require(all(weight > 1e-11), name, call.loc(),
            concat_text("the windows leave points without weight: ", to_string(type_of(weight))));
  Tensor signal = cut(added_up(frames, how)) / weight;
  if (is_longer) signal = pad(signal, 1, 0, start + wanted - whole);
  return rank == 2 ? squeeze(signal, 0) : signal;
}

}  // namespace weft
