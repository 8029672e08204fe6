#include "core/model/module_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "core/base/error.h"
#include "core/base/utf8.h"

namespace shardscope {
namespace {

struct Node {
  std::string name;  ///< full
  std::vector<std::size_t> children;
};

class NameTree {
 public:
  explicit NameTree(std::string_view where) : where_(where), nodes_{{}}, index_{{"", 0}} {}

  std::size_t add(std::string_view name) {
    if (const auto found = index_.find(name); found != index_.end()) return found->second;
    const std::size_t parent = add(owner_of(name));
    if (static_cast<std::int64_t>(nodes_.size()) >= most_modules)
      throw Error({.where = std::string(where_),
                   .what = fmt::format("the names imply more than {} modules", most_modules),
                   .way_out = {}});
    const std::size_t id = nodes_.size();
    nodes_.push_back({.name = std::string(name), .children = {}});
    nodes_[parent].children.push_back(id);
    index_.emplace(name, id);
    return id;
  }

  std::vector<std::string> in_pre_order() {
    std::vector<std::string> result;
    std::vector<std::size_t> next{0};
    while (!next.empty()) {
      Node& node = nodes_[next.back()];
      next.pop_back();
      sort_numbers(node);
      next.insert(next.end(), node.children.rbegin(), node.children.rend());
      result.push_back(node.name);
    }
    return result;
  }

 private:
  std::string_view own_name(std::size_t id) const {
    const std::string_view name = nodes_[id].name;
    const std::string_view owner = owner_of(name);
    return owner.empty() ? name : name.substr(owner.size() + 1);
  }

  /// Numbers without leading zeros compare by length, then as text.
  void sort_numbers(Node& node) const {
    const auto is_number = [&](std::size_t id) {
      const std::string_view text = own_name(id);
      return text.find_first_not_of("0123456789") == std::string_view::npos;
    };
    if (!std::all_of(node.children.begin(), node.children.end(), is_number)) return;
    std::stable_sort(node.children.begin(), node.children.end(), [&](std::size_t a, std::size_t b) {
      const std::string_view x = own_name(a), y = own_name(b);
      return std::pair(x.size(), x) < std::pair(y.size(), y);
    });
  }

  std::string_view where_;
  std::vector<Node> nodes_;
  std::map<std::string, std::size_t, std::less<>> index_;
};

}  // namespace

std::string_view owner_of(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : name.substr(0, dot);
}

std::string_view numbered_module_of(std::string_view module) {
  for (std::size_t dot = module.find('.'); dot != std::string_view::npos;
       dot = module.find('.', dot + 1)) {
    if (dot + 1 < module.size() && module[dot + 1] >= '0' && module[dot + 1] <= '9')
      return module.substr(0, module.find('.', dot + 1));
  }
  return {};
}

std::string complaint_about_name(std::string_view name) {
  if (name.size() > longest_module_name)
    return fmt::format("the name {} has {} bytes, more than {}", shown(name), name.size(),
                       longest_module_name);
  if (name.empty() || name.front() == '.' || name.back() == '.' ||
      name.find("..") != std::string_view::npos)
    return fmt::format("the name \"{}\" has an empty part", shown(name));
  return {};
}

std::vector<std::string> implied_modules(const std::vector<std::string>& names,
                                         std::string_view where) {
  NameTree tree(where);
  for (const std::string& name : names) tree.add(owner_of(name));
  return tree.in_pre_order();
}

}  // namespace shardscope
