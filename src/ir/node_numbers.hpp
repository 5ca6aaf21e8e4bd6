// Numbers of nodes, kept beside them: two graphs that share a node may number it differently, and on several threads at
// once. In: nodes that live at least as long. Out: the number of each.
#pragma once
#include <bit>
#include <cstdint>
#include <vector>

namespace weft {

struct Node;

// Open addressing over a power of two of places, at most half of them taken.
class NodeNumbers {
 public:
  static constexpr std::uint32_t none = UINT32_MAX;

  // The number of the node; `none` where it has none.
  std::uint32_t find(const Node* node) const {
    if (places_.empty()) return none;
    std::size_t at = place_of(node);
    while (places_[at].node && places_[at].node != node) at = (at + 1) & (places_.size() - 1);
    return places_[at].node ? places_[at].number : none;
  }
  // Gives the node this number; says whether it had none.
  bool set(const Node* node, std::uint32_t number) {
    if (2 * (count_ + 1) > places_.size()) grow(places_.size() * 2);
    Place& place = free_or_taken(node);
    place.number = number;
    if (place.node) return false;
    place.node = node;
    ++count_;
    return true;
  }
  void reserve(std::size_t count) {
    if (2 * count > places_.size()) grow(std::bit_ceil(2 * count));
  }

 private:
  struct Place {
    const Node* node = nullptr;
    std::uint32_t number = 0;
  };
  // The highest bits of a product depend on all bits of the address.
  std::size_t place_of(const Node* node) const {
    const auto address = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(node));
    return static_cast<std::size_t>((address * 0x9e3779b97f4a7c15u) >> shift_);
  }
  Place& free_or_taken(const Node* node) {
    std::size_t at = place_of(node);
    while (places_[at].node && places_[at].node != node) at = (at + 1) & (places_.size() - 1);
    return places_[at];
  }
  void grow(std::size_t size) {
    const std::vector<Place> before = std::move(places_);
    places_.assign(size < 8 ? 8 : size, {});
    shift_ = 64 - std::countr_zero(places_.size());
    for (const Place& place : before)
      if (place.node) free_or_taken(place.node) = place;
  }

  std::vector<Place> places_;
  std::size_t count_ = 0;
  int shift_ = 0;
};

}  // namespace weft
