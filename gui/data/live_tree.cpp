#include "gui/data/live_tree.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>

namespace shardscope::gui {
namespace {

bool contains(std::string_view text, std::string_view wanted) {
  const auto same = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) ==
           std::tolower(static_cast<unsigned char>(b));
  };
  return std::search(text.begin(), text.end(), wanted.begin(), wanted.end(), same) != text.end();
}

bool is_wanted(const LiveBuffer& buffer, std::string_view wanted) {
  const std::array<std::string_view, 5> texts{buffer.name, buffer.unit, band_name(buffer.band),
                                              buffer.allocated_by, buffer.freed_by};
  return wanted.empty() || std::any_of(texts.begin(), texts.end(), [&](std::string_view text) {
           return contains(text, wanted);
         });
}

struct UnitPart {
  std::string unit;
  Bytes bytes;
  std::vector<std::uint32_t> buffers;
};

struct BandPart {
  std::size_t band = 0;
  Bytes bytes, unlisted;
  std::vector<UnitPart> units;
};

template <class Part>
void sort_by_size(std::vector<Part>& parts) {
  std::stable_sort(parts.begin(), parts.end(),
                   [](const Part& a, const Part& b) { return a.bytes > b.bytes; });
}

std::vector<BandPart> parts_of(const LiveSet& set, std::string_view wanted) {
  std::array<std::map<std::string, UnitPart>, memory_band_count> units;
  for (std::uint32_t i = 0; i < set.buffers.size(); ++i) {
    const LiveBuffer& buffer = set.buffers[i];
    if (!is_wanted(buffer, wanted)) continue;
    UnitPart& unit = units[buffer.band][buffer.unit];
    unit.unit = buffer.unit;
    unit.bytes += buffer.bytes;
    unit.buffers.push_back(i);
  }
  std::vector<BandPart> bands;
  for (std::size_t band = 0; band < memory_band_count; ++band) {
    BandPart part{.band = band};
    if (wanted.empty()) part.bytes = part.unlisted = set.unlisted[band];
    for (auto& [name, unit] : units[band]) {
      part.bytes += unit.bytes;
      part.units.push_back(std::move(unit));
    }
    sort_by_size(part.units);
    if (part.bytes.count != 0 || !part.units.empty()) bands.push_back(std::move(part));
  }
  sort_by_size(bands);
  return bands;
}

/// Lays nodes out level by level, so that children stand side by side.
class TreeBuilder {
 public:
  TreeBuilder(const LiveSet& set, const std::vector<BandPart>& bands) : set_(set), bands_(bands) {
    tree_.nodes.push_back({.text = "all"});
    for (const BandPart& band : bands_) tree_.nodes[0].bytes += band.bytes;
  }

  LiveTree take() {
    for (const BandPart& band : bands_)
      add(0, {.text = std::string(band_name(band.band)), .bytes = band.bytes, .band = band.band});
    for (std::uint32_t i = 0; i < bands_.size(); ++i) add_units(1 + i, bands_[i]);
    for (const auto& [node, unit] : units_)
      for (const std::uint32_t buffer : unit->buffers)
        add(node, {.text = set_.buffers[buffer].name,
                   .bytes = set_.buffers[buffer].bytes,
                   .buffer = buffer,
                   .band = set_.buffers[buffer].band});
    return std::move(tree_);
  }

 private:
  std::uint32_t add(std::uint32_t parent, LiveTree::Node node) {
    const auto id = static_cast<std::uint32_t>(tree_.nodes.size());
    LiveTree::Node& above = tree_.nodes[parent];
    if (above.child_count == 0) above.first_child = id;
    node.parent = parent;
    node.row = above.child_count++;
    tree_.nodes.push_back(std::move(node));
    return id;
  }

  void add_units(std::uint32_t parent, const BandPart& band) {
    for (const UnitPart& unit : band.units) {
      const std::string text = unit.unit.empty() ? "root, or of no unit" : unit.unit;
      units_.emplace_back(add(parent, {.text = text, .bytes = unit.bytes, .band = band.band}),
                          &unit);
    }
    if (band.unlisted.count != 0)
      add(parent, {.text = "rounding, and what has no record",
                   .bytes = band.unlisted,
                   .band = band.band,
                   .is_unlisted = true});
  }

  const LiveSet& set_;
  const std::vector<BandPart>& bands_;
  LiveTree tree_;
  std::vector<std::pair<std::uint32_t, const UnitPart*>> units_;
};

}  // namespace

LiveTree live_tree(const LiveSet& set, std::string_view wanted) {
  const std::vector<BandPart> bands = parts_of(set, wanted);
  return TreeBuilder(set, bands).take();
}

}  // namespace shardscope::gui
