#include "core/pytorch/plans/model_size.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <unordered_map>

#include "core/format/python_text.h"
#include "core/pytorch/plans/module_tree.h"

namespace shardscope {
namespace {

/// Sizes by name, in the order of the names' first occurrence.
class SizeTable {
 public:
  /// Adds to the tensor's own name and to every module above it.
  void add(const std::string& tensor, Bytes size) {
    add_to("", size);
    for (std::size_t dot = tensor.find('.'); dot != std::string::npos;
         dot = tensor.find('.', dot + 1))
      add_to(tensor.substr(0, dot), size);
    add_to(tensor, size);
  }

  Bytes of(const std::string& name) const {
    const auto found = index_.find(name);
    return found == index_.end() ? Bytes() : sizes_[found->second].second;
  }

  std::vector<std::pair<std::string, Bytes>> take() { return std::move(sizes_); }

 private:
  void add_to(const std::string& name, Bytes size) {
    const auto [place, fresh] = index_.emplace(name, sizes_.size());
    if (fresh) sizes_.emplace_back(name, Bytes());
    sizes_[place->second].second += size;
  }

  std::vector<std::pair<std::string, Bytes>> sizes_;
  std::unordered_map<std::string, std::size_t> index_;
};

/// Parameters are made in float32 whatever the config says; buffers keep their own type.
Bytes float32_size(std::int64_t elements) { return bytes_of(elements, Dtype::float32); }

SizeTable sizes_of(const Model& model, const ModuleTree& tree) {
  SizeTable table;
  for (const TreeParameter& parameter : tree.parameters)
    table.add(parameter.name, float32_size(parameter.elements()));
  for (const ModelBuffer& buffer : model.buffers)
    table.add(buffer.name, bytes_of(elements_of(buffer.shape), buffer.dtype));
  return table;
}

/// get_max_layer_size, which walks depth first from the root's own tensors and children.
class LargestLayer {
 public:
  LargestLayer(const Model& model, const ModuleTree& tree, const SizeTable& table)
      : model_(model), tree_(tree), table_(table) {}

  void walk_root() {
    const TreeModule& root = tree_.modules.front();
    for (const std::int32_t id : root.parameters)
      offer(tree_.parameters[static_cast<std::size_t>(id)].name);
    for (const std::int32_t id : root.children) walk(tree_.modules[static_cast<std::size_t>(id)]);
    for (const ModelBuffer& buffer : model_.buffers)
      if (buffer.name.find('.') == std::string::npos) offer(buffer.name);
  }

  Bytes size;
  std::vector<std::string> names;

 private:
  bool splits(const TreeModule& module) const {
    const std::vector<std::string>& kept = model_.no_split_classes;
    return !module.children.empty() &&
           std::find(kept.begin(), kept.end(), module.class_name) == kept.end();
  }

  void walk(const TreeModule& module) {
    if (!splits(module)) return offer(module.name);
    for (const std::int32_t id : module.children) walk(tree_.modules[static_cast<std::size_t>(id)]);
  }

  void offer(const std::string& name) {
    const Bytes candidate = table_.of(name);
    if (candidate < size) return;
    if (candidate > size) names.clear();
    size = candidate;
    names.push_back(name);
  }

  const Model& model_;
  const ModuleTree& tree_;
  const SizeTable& table_;
};

/// By how much a type is smaller than float32.
double shrink_of(const std::string& dtype) {
  if (dtype == "float16") return 2;
  if (dtype == "int8") return 4;
  return dtype == "int4" ? 8 : 1;
}

/// estimate_training_usage.
std::optional<LoadEstimate::Training> training_of(Bytes total, const std::string& dtype) {
  if (dtype == "float32")
    return LoadEstimate::Training{
        .model = total, .optimizer = total * 2, .gradients = total, .step = total * 4};
  if (dtype == "float16")
    return LoadEstimate::Training{.model = total,
                                  .optimizer = total * 2,
                                  .gradients = total + Bytes{total.count / 2},
                                  .step = total * 2};
  return std::nullopt;
}

/// str(round(value, 2)).
std::string rounded(double value) {
  const std::string digits = fmt::format("{:.2f}", value);
  double near = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), near);
  return python_float(near);
}

// --- the table -------------------------------------------------------------------------------

constexpr std::string_view bar = "│";
constexpr std::string_view line = "─";

std::string repeated(std::string_view text, std::size_t times) {
  std::string out;
  for (std::size_t i = 0; i < times; ++i) out += text;
  return out;
}

/// len(text).
std::size_t characters(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

/// str.center: where the space is odd, the one more stands left if the width is odd, else right.
std::string centered(const std::string& text, std::size_t width) {
  const std::size_t length = characters(text);
  if (length >= width) return text;
  const std::size_t space = width - length;
  const std::size_t left = space / 2 + (space & width & 1);
  return std::string(left, ' ') + text + std::string(space - left, ' ');
}

std::string rule(std::string_view left, std::string_view middle, std::string_view right,
                 const std::vector<std::size_t>& widths) {
  std::string out(left);
  for (std::size_t i = 0; i < widths.size(); ++i) {
    if (i > 0) out += middle;
    out += repeated(line, widths[i]);
  }
  return out + std::string(right);
}

std::string row_of(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths) {
  std::string out(bar);
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::string cell = centered(cells[i], widths[i]);
    out += cell;
    out += bar;
  }
  return out;
}

using Cells = std::vector<std::vector<std::string>>;

Cells cells_of(const std::vector<LoadEstimate>& rows) {
  Cells cells{{"dtype", "Largest Layer", "Total Size", "Training using Adam"}};
  for (const LoadEstimate& row : rows) {
    const bool whole = shrink_of(row.dtype) == 1;
    std::string training = "N/A";
    if (row.training) {
      const LoadEstimate::Training& t = *row.training;
      const Bytes most = std::max({t.model, t.optimizer, t.gradients, t.step});
      training = converted_bytes(static_cast<double>(most.count), true);
    }
    cells.push_back({row.dtype, converted_bytes(row.largest_layer, whole),
                     converted_bytes(row.total, whole), training});
  }
  return cells;
}

std::vector<std::size_t> widths_of(const Cells& cells) {
  std::vector<std::size_t> widths(cells.front().size(), 0);
  for (const auto& row : cells)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  return widths;
}

}  // namespace

ModelSizes model_sizes(const Model& model) {
  const ModuleTree tree = tree_of(model);
  SizeTable table = sizes_of(model, tree);
  LargestLayer largest(model, tree, table);
  largest.walk_root();
  ModelSizes sizes{.total = table.of(""),
                   .largest_layer = largest.size,
                   .largest_layers = std::move(largest.names)};
  for (const TreeParameter& parameter : tree.parameters)
    sizes.parameter_elements += parameter.elements();
  sizes.by_name = table.take();
  return sizes;
}

std::vector<LoadEstimate> load_estimates(const ModelSizes& sizes,
                                         const std::vector<std::string>& dtypes) {
  std::vector<LoadEstimate> rows;
  for (const std::string& dtype : dtypes) {
    const double shrink = shrink_of(dtype);
    rows.push_back({.dtype = dtype,
                    .largest_layer = static_cast<double>(sizes.largest_layer.count) / shrink,
                    .total = static_cast<double>(sizes.total.count) / shrink,
                    .training = training_of(sizes.total, dtype)});
  }
  return rows;
}

std::vector<std::string> load_estimate_table(std::string_view model_name,
                                             const std::vector<LoadEstimate>& rows) {
  const Cells cells = cells_of(rows);
  std::vector<std::size_t> widths = widths_of(cells);
  const std::string title = fmt::format("Memory Usage for loading `{}`", model_name);
  std::size_t columns = 0;
  for (const std::size_t width : widths) columns += width;
  const std::size_t separator = columns + widths.size() + 1;
  const std::size_t title_width = characters(title);
  // The command widens the last column by how far title and separator are apart, whichever is
  // longer, and then once more.
  if (title_width > columns)
    widths.back() += 2 * (std::max(title_width, separator) - std::min(title_width, separator));
  const std::string top = rule("┌", line, "┐", widths);
  std::vector<std::string> lines{
      top, std::string(bar) + centered(title, characters(top) - 2) + std::string(bar),
      rule("├", "┬", "┤", widths)};
  for (const auto& row : cells) {
    lines.push_back(row_of(row, widths));
    if (&row == &cells.front()) lines.push_back(rule("├", "┼", "┤", widths));
  }
  lines.push_back(rule("└", "┴", "┘", widths));
  return lines;
}

std::string converted_bytes(double bytes, bool whole) {
  constexpr std::array<std::string_view, 5> units{"bytes", "KB", "MB", "GB", "TB"};
  for (const std::string_view unit : units) {
    if (bytes < 1024)
      return whole && unit == "bytes" ? fmt::format("{} bytes", static_cast<std::int64_t>(bytes))
                                      : fmt::format("{} {}", rounded(bytes), unit);
    bytes /= 1024;
  }
  return rounded(bytes) + " PB";
}

}  // namespace shardscope
