// Sound from WAV files: PCM of 8, 16, 24 or 32 bits and floats of 32 or 64, of any number of channels.
#pragma once
#include <bit>

#include "examples/support/run.hpp"

namespace support {

struct Sound {
  std::vector<float> samples;  // of all channels' mean, from -1 to 1
  std::int64_t rate = 0;       // samples a second
};

// Throws Error where the file is none, is damaged, or holds sound that is compressed.
inline Sound read_wav(const std::string& path) {
  const std::string file = data::read_text(path);
  const auto number = [&](std::size_t at, std::size_t bytes) {
    std::uint64_t value = 0;
    if (at + bytes > file.size()) fail(path + " ends too early");
    for (std::size_t i = 0; i < bytes; ++i) value |= std::uint64_t{static_cast<unsigned char>(file[at + i])} << 8 * i;
    return value;
  };
  if (file.compare(0, 4, "RIFF") != 0 || file.size() < 12 || file.compare(8, 4, "WAVE") != 0)
    fail(path + " is no WAV file");
  Sound sound;
  std::uint64_t format = 0, channels = 0, bits = 0;
  for (std::size_t at = 12; at + 8 <= file.size();) {
    const std::string name = file.substr(at, 4);
    const std::uint64_t bytes = number(at + 4, 4);
    at += 8;
    if (name == "fmt ") {
      format = number(at, 2), channels = number(at + 2, 2), bits = number(at + 14, 2);
      sound.rate = static_cast<std::int64_t>(number(at + 4, 4));
      if (format == 0xFFFE) format = number(at + 24, 2);  // extensible: the code comes later
      const bool pcm = format == 1 && (bits == 8 || bits == 16 || bits == 24 || bits == 32);
      const bool real = format == 3 && (bits == 32 || bits == 64);
      if ((!pcm && !real) || channels == 0 || sound.rate == 0) fail(path + " holds sound in a format that is not read");
    }
    if (name == "data") {
      if (channels == 0) fail(path + " does not say what its sound is like");
      if (at + bytes > file.size()) fail(path + " ends too early");
      const std::size_t each = bits / 8, frames = bytes / (each * channels);
      const auto sample = [&](std::size_t place) {
        const std::uint64_t word = number(place, each);
        if (format == 3)
          return bits == 32 ? std::bit_cast<float>(static_cast<std::uint32_t>(word)) : std::bit_cast<double>(word);
        if (bits == 8) return (static_cast<double>(word) - 128) / 128;
        return static_cast<double>(static_cast<std::int64_t>(word << (64 - bits))) / 0x1p63;
      };
      for (std::size_t i = 0; i < frames; ++i) {
        double sum = 0;
        for (std::size_t c = 0; c < channels; ++c) sum += sample(at + (i * channels + c) * each);
        sound.samples.push_back(static_cast<float>(sum / static_cast<double>(channels)));
      }
      return sound;
    }
    at += bytes + bytes % 2;
  }
  fail(path + " has no sound in it");
}

}  // namespace support
